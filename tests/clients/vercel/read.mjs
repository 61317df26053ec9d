// What threadprotocol.mjs makes of streams: {threadprotocol, cases: [{asked?, chunks}]} in, a list of canonical actions out.

import { text } from "node:stream/consumers";

const given = JSON.parse(await text(process.stdin));
const { StreamReader, canonical, canonicalHash, normalMoment } = await import(given.threadprotocol);

function read({ asked, chunks }) {
  const reader = new StreamReader({ agentId: given.agentId, notBefore: given.notBefore });
  try {
    if (asked) reader.takeUser(asked);
    for (const chunk of chunks) reader.take(chunk);
    return reader.actions().map(canonical);
  } catch (error) {
    return String(error.message);
  }
}

const moments = (given.moments ?? []).map(normalMoment);
const hashes = await Promise.all((given.values ?? []).map(canonicalHash));
const texts = (given.values ?? []).map(canonical);
console.log(JSON.stringify({ read: given.cases.map(read), moments, hashes, texts }));
