/* Joins tfjs_app.mjs and the custom module into one file, as TensorFlow.js' page on custom bundles says: its generated files stand in for the packages. */
import { createRequire } from "node:module";
import { join } from "node:path";

const [, , app, custom, to] = process.argv;
const { build } = createRequire(join(process.cwd(), "package.json"))("esbuild");
const stands = {
    "@tensorflow/tfjs": "custom_tfjs.js",
    "@tensorflow/tfjs-core": "custom_tfjs_core.js",
    "@tensorflow/tfjs-core/dist/ops/ops_for_converter": "custom_ops_for_converter.js",
};
const standIn = {
    name: "custom",
    setup(on) {
        on.onResolve({ filter: /^@tensorflow\/tfjs/ }, (ask) => (stands[ask.path] ? { path: join(custom, stands[ask.path]) } : undefined));
    },
};
await build({ entryPoints: [app], bundle: true, minify: true, platform: "node", mainFields: ["module", "main"], format: "esm", outfile: to, nodePaths: [join(process.cwd(), "node_modules")], plugins: [standIn],
              banner: { js: 'import{createRequire}from"node:module";const require=createRequire(import.meta.url);' } });
