// SPDX-License-Identifier: Apache-2.0
// Answers one prompt after the other on node-llama-cpp, and says after each how fast it was. No markers in here.
//
//   node answer.mjs MODEL.gguf [TOKENS [THREADS]]
import {getLlama, LlamaCompletion} from "node-llama-cpp";

const [modelPath, maxTokens = "64", threads = "1"] = process.argv.slice(2);
if (!modelPath) {
    console.error("usage: node answer.mjs MODEL.gguf [TOKENS [THREADS]]");
    process.exit(2);
}
const llama = await getLlama({gpu: false, build: "never", skipDownload: true, progressLogs: false, logLevel: "error",
    maxThreads: Number(threads)});
const model = await llama.loadModel({modelPath});
const context = await model.createContext({contextSize: 1024, threads: Number(threads), sequences: 1});
const sequence = context.getSequence();
const prompts = ["The three largest cities of the world are", "To bake a good bread one needs",
    "A computer program that profiles another one"];

console.log(`ready ${process.pid}`);
for (let i = 0; ; i++) {
    const completion = new LlamaCompletion({contextSequence: sequence});
    const begin = performance.now();
    let first, tokens = 0;
    await sequence.clearHistory();
    await completion.generateCompletion(prompts[i % prompts.length], {
        maxTokens: Number(maxTokens),
        temperature: 0,
        onToken(chunk) {
            first ??= performance.now();
            tokens += chunk.length;
        }
    });
    const end = performance.now();
    completion.dispose({disposeSequence: false});
    if (tokens > 1)
        console.log(`first token after ${(first - begin).toFixed(1)} ms, then ${((tokens - 1) * 1000 / (end - first)).toFixed(0)} tokens/s`);
}
