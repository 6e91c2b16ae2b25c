// Renders formulas: reads one JSON object a line from stdin, {tex, display},
// and answers with one a line, {html} or {error}.
const katex = require("katex");
const readline = require("node:readline");

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const { tex, display } = JSON.parse(line);
  let answer;
  try {
    answer = { html: katex.renderToString(tex, {
      displayMode: display, throwOnError: true, strict: false }) };
  } catch (error) {
    answer = { error: error.message };
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
});
