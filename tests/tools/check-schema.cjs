// SPDX-License-Identifier: Apache-2.0
//
// Validates one JSON file against a JSON Schema. Prints what is wrong; exit status 1 when anything is.
//
//   NODE_PATH=build/tools/npm-readers/node_modules node check-schema.cjs SCHEMA FILE
'use strict';

const fs = require('fs');
const Ajv = require('ajv').default;

const [schema, file] = process.argv.slice(2).map((f) => JSON.parse(fs.readFileSync(f, 'utf8')));
const validate = new Ajv({ strict: false, allErrors: true }).compile(schema);
if (!validate(file)) {
	for (const e of validate.errors.slice(0, 20)) console.log(`${e.instancePath}: ${e.message}`);
	process.exit(1);
}
