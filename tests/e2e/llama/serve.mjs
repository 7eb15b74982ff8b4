// SPDX-License-Identifier: Apache-2.0
// A small inference process on node-llama-cpp: loads the model, prints "ready PID", obeys lines on stdin.
// "run N TOKENS" completes N prompts of up to TOKENS tokens each and prints a JSON line with the number of
// batches that the binding was asked to decode, each of which is one llama_decode call; "quit" ends.
import readline from "node:readline";
import {getLlama, LlamaCompletion} from "node-llama-cpp";

const modelPath = process.argv[2];
const llama = await getLlama({gpu: false, build: "never", skipDownload: true, progressLogs: false,
    maxThreads: 1, logLevel: "error"});
const model = await llama.loadModel({modelPath});
const context = await model.createContext({contextSize: 512, threads: 1, sequences: 1});
const sequence = context.getSequence();

// Counted where the binding hands a batch to the native side, so that the number is what was asked for
// and not what is expected of it.
let decodes = 0;
const native = context._ctx;
context._ctx = new Proxy(native, {
    get(target, key) {
        if (key === "decodeBatch")
            decodes++;
        const value = target[key];
        return typeof value === "function" ? value.bind(target) : value;
    }
});

async function run(n, maxTokens) {
    const before = decodes;
    let characters = 0;
    for (let i = 0; i < n; i++) {
        await sequence.clearHistory();
        const completion = new LlamaCompletion({contextSequence: sequence});
        const text = await completion.generateCompletion(`the answer ${i} is`, {maxTokens, temperature: 0});
        characters += text.length;
        completion.dispose({disposeSequence: false});
    }
    console.log(JSON.stringify({decodes: decodes - before, completions: n, characters}));
}

console.log(`ready ${process.pid}`);
for await (const line of readline.createInterface({input: process.stdin})) {
    const [command, ...args] = line.trim().split(/\s+/);
    if (command === "run")
        await run(Number(args[0]), Number(args[1] ?? 16));
    else if (command === "quit")
        break;
}
await context.dispose();
await model.dispose();
await llama.dispose();
process.exit(0);
