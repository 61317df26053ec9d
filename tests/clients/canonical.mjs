// The canonical form of RFC 8785, written anew in the language whose numbers and strings it is defined by. It is given a JSON
// array of JSON texts on standard input, and answers with their canonical forms.
import { stdin, stdout } from "node:process";

function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const names = Object.keys(value).sort((a, b) => (a < b ? -1 : a > b ? 1 : 0)); // by UTF-16 units
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join(",")}}`;
}

let text = "";
stdin.setEncoding("utf8");
for await (const part of stdin) text += part;
stdout.write(JSON.stringify(JSON.parse(text).map((one) => canonical(JSON.parse(one)))));
