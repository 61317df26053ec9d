/**
 * ThreadProtocol 1.0.0 in a client of the Vercel AI SDK: the actions of a UI message stream, and their canonical bytes.
 *
 * It reads parsed chunks and the UI messages of requests, and makes of them what the server has in its thread, byte for
 * byte, where the server sends `data-tp-action` chunks. It needs nothing but ECMAScript 2024: any browser, Node 20 or newer.
 *
 *     const reader = new StreamReader({ agentId: "coder", notBefore: "2025-01-15T10:00:00Z" });
 *     reader.takeUser(messages.at(-1));
 *     for await (const chunk of stream) reader.take(chunk);
 *     const bytes = reader.actions().map(canonicalBytes);
 */

const STREAMED = {
  user_message: ["content", "attachments"],
  assistant_message: ["content"],
  thinking: ["content", "signature"],
  tool_call: ["tool_name", "tool_call_id", "args"],
  tool_return: ["tool_name", "tool_call_id", "content"],
};
const FINISH = { stop: "stop", length: "length", "content-filter": "content_filter", "tool-calls": "tool_call" };
const NULLABLE = ["content", "args", "data"];
const WITH_AGENT = ["assistant_message", "thinking", "tool_call"];
const DENIED = "The call was denied.";
const RFC_3339 = /^(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})(?:\.(\d+))?(?:Z|([+-])(\d{2}):(\d{2}))$/;

/** What cannot be read: a chunk that is none, or speaks of a block or call that was not begun; a value without a canonical form. */
export class InvalidThread extends Error {}

/** The RFC 8785 text of a JSON value. */
export function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value !== null && typeof value === "object") {
    const names = Object.keys(value).filter((name) => value[name] !== undefined);
    return `{${names.sort().map((name) => `${canonical(name)}:${canonical(value[name])}`).join(",")}}`;
  }
  if (typeof value === "string" && !value.isWellFormed()) throw new InvalidThread("half of a surrogate pair has no canonical form");
  if (typeof value === "number" && !Number.isFinite(value)) throw new InvalidThread(`${value} has no canonical form`);
  return JSON.stringify(value);
}

/** The canonical bytes of a thread, or of one action: UTF-8. */
export function canonicalBytes(value) {
  return new TextEncoder().encode(canonical(value));
}

/** The SHA-256 of the canonical bytes, as 64 hexadecimal digits. */
export async function canonicalHash(value) {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", canonicalBytes(value)));
  return [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The same time in UTC, cut to milliseconds, as in `2025-01-15T10:00:00.000Z`. */
export function normalMoment(text) {
  const found = RFC_3339.exec(text);
  if (found === null) throw new InvalidThread(`${text} is not an ISO 8601 time with a zone`);
  const [year, month, day, hour, minute, second] = found.slice(1, 7).map(Number);
  const at = new Date(0);
  at.setUTCFullYear(year, month - 1, day);
  at.setUTCHours(hour, minute, second, Number((found[7] ?? "").slice(0, 3).padEnd(3, "0")));
  const offset = found[8] === undefined ? 0 : (found[8] === "+" ? 1 : -1) * (Number(found[9]) * 60 + Number(found[10]));
  return new Date(at.getTime() - offset * 60_000).toISOString();
}

/** Reads one stream: of one run, or of what a client saw of it; of a run that went on after answers, all its streams. */
export class StreamReader {
  /** "finish" or "abort" when such a chunk came; null while the stream goes on, or if it broke off. */
  ended = null;
  #agentId;
  #notBefore;
  #first;
  #at = null;
  #drafts = [];
  #byRef = new Map();
  #step = 0;
  #hasSteps = false;
  #wasAnswered = false;
  #open = new Map();
  #names = new Map();
  #reasons = new Map();
  #asked = new Map();
  #notes = new Map();

  /** `notBefore`: the time of the thread's last action; `first`: the first number. Both count where no chunk says more. */
  constructor({ agentId, notBefore, first = 1 }) {
    this.#agentId = agentId;
    this.#notBefore = notBefore;
    this.#first = first;
  }

  /** Takes a user's UI message, as it stands in the request of the stream. */
  takeUser(message) {
    this.#drafts.push(draftOf("user_message", String(message.id ?? ""), -1, userMembers(message)));
  }

  /** Takes the next chunk; types that are not known are passed over. */
  take(chunk) {
    if (chunk === null || typeof chunk !== "object" || typeof chunk.type !== "string") {
      throw new InvalidThread("it is no object with a type; send UI message stream chunks");
    }
    if (chunk.type.startsWith("data-")) this.#takeData(chunk);
    else if (Object.hasOwn(TAKES, chunk.type)) TAKES[chunk.type].call(this, chunk);
  }

  /** The actions so far, in order. Of a stream that was aborted or broke off only what is complete. */
  actions() {
    let told = this.#drafts.map((draft) => [draft, this.#noteOf(draft)]);
    told = told.filter(([draft, note]) => this.#isKept(draft, note));
    const sequences = told.filter(([, note]) => note).map(([, note]) => note.sequence);
    let next = this.#first;
    if (sequences.length > 0 && sequences.length === told.length) {
      told.sort(([, one], [, other]) => one.sequence - other.sequence);
      next = Math.min(...sequences);
    }
    let latest = normalMoment(this.#notBefore);
    return told.map(([draft, note]) => {
      const fields = members(draft, note);
      if (WITH_AGENT.includes(draft.actionType)) fields.agent_id = note?.agentId ?? this.#agentId;
      const at = note ? note.timestamp : this.#at;
      if (at !== null && normalMoment(at) > latest) latest = normalMoment(at);
      const given = Object.entries(fields).filter(([name, value]) => value != null || NULLABLE.includes(name));
      const sound = given.map(([name, value]) => [name, wellFormed(value)]);
      return { action_type: draft.actionType, timestamp: latest, sequence: next++, ...Object.fromEntries(sound) };
    });
  }

  _startBlock(chunk) {
    this.#goOn();
    const kind = chunk.type.replace("-start", "");
    const name = textOf(chunk, "id");
    const block = { deltas: [], isComplete: false };
    const draft = kind === "text" ? this.#message(name) : this.#draft("thinking", name);
    draft.said.push(block);
    this.#open.set(`${kind} ${name}`, [block, draft]);
    learn(draft, chunk);
  }

  _addDelta(chunk) {
    const [block, draft] = this.#opened(chunk.type.replace("-delta", ""), textOf(chunk, "id"));
    block.deltas.push(textOf(chunk, "delta"));
    learn(draft, chunk);
  }

  _endBlock(chunk) {
    const kind = chunk.type.replace("-end", "");
    const [block, draft] = this.#opened(kind, textOf(chunk, "id"));
    block.isComplete = true;
    this.#open.delete(`${kind} ${chunk.id}`);
    learn(draft, chunk);
  }

  _startInput(chunk) {
    this.#names.set(textOf(chunk, "toolCallId"), textOf(chunk, "toolName"));
  }

  _addInput(chunk) {
    if (!this.#names.has(textOf(chunk, "toolCallId"))) throw unknownCall(chunk);
  }

  _call(chunk) {
    const id = textOf(chunk, "toolCallId");
    let draft = this.#find("tool_call", id);
    if (draft === undefined) {
      this.#goOn();
      draft = this.#draft("tool_call", id);
    }
    this.#names.set(id, textOf(chunk, "toolName"));
    Object.assign(draft.fields, { tool_call_id: id, tool_name: chunk.toolName, args: jsonArgs(chunk.input) });
    if (chunk.providerExecuted === true) draft.fields.provider_executed = true;
  }

  _refuseInput(chunk) {
    this._call(chunk);
    this.#giveBack(chunk, "validation_error", chunk.errorText ?? null);
  }

  _giveBack(chunk) {
    if (chunk.preliminary !== true) this.#giveBack(chunk, "success", chunk.output ?? null);
  }

  _fail(chunk) {
    const before = this.#find("tool_return", textOf(chunk, "toolCallId"));
    if (before?.fields.status !== "validation_error") this.#giveBack(chunk, "error", chunk.errorText ?? null);
  }

  _deny(chunk) {
    const reason = this.#reasons.get(textOf(chunk, "toolCallId")) ?? DENIED;
    this.#giveBack(chunk, "error", reason).fields.outcome = "denied";
  }

  _askApproval(chunk) {
    this.#asked.set(textOf(chunk, "approvalId"), textOf(chunk, "toolCallId"));
  }

  _noteApproval(chunk) {
    const id = chunk.toolCallId ?? this.#asked.get(chunk.approvalId);
    if (typeof id === "string" && typeof chunk.reason === "string") this.#reasons.set(id, chunk.reason);
  }

  _report(chunk) {
    const calls = this.#drafts.filter((draft) => draft.actionType === "tool_call").map((draft) => draft.refs[0]);
    const open = calls.filter((id) => this.#find("tool_return", id) === undefined);
    if (open.length === 1) this.#giveBack({ toolCallId: open[0] }, "error", chunk.errorText ?? null);
    else this.#draft("system.error", "").fields.data = { message: chunk.errorText ?? null };
  }

  _addSource(chunk) {
    const { type, ...rest } = chunk;
    const isCustom = type === "custom";
    const draft = this.#draft(isCustom ? "system.custom" : "system.source", String(chunk.sourceId ?? ""));
    draft.fields.data = isCustom ? rest : { ...chunk };
  }

  _addFile(chunk) {
    if (chunk.providerMetadata?.threadprotocol?.shown_only === true) return;
    this.#message("").said.push(mediaPart(textOf(chunk, "mediaType"), { url: textOf(chunk, "url") }));
  }

  _steer(chunk) {
    this.takeUser({ id: chunk.id, role: "user", parts: chunk.parts });
  }

  _startStep() {
    this.#hasSteps = true;
    this.#step += 1;
  }

  _finishStep() {
    for (const [block] of this.#open.values()) block.isComplete = true;
    this.#open.clear();
    this.#step += 1;
  }

  _resetStep() {
    this.#drafts = this.#drafts.filter((draft) => draft.step !== this.#step);
    this.#byRef = new Map(this.#drafts.map((draft) => [`${draft.actionType} ${draft.refs[0]}`, draft]));
    this.#open.clear();
  }

  _learnMetadata(chunk) {
    this.#at = momentIn(chunk.messageMetadata) ?? this.#at;
  }

  _finish(chunk) {
    this._finishStep();
    this._learnMetadata(chunk);
    this.ended = "finish";
    const said = this.#drafts.filter((draft) => draft.actionType === "assistant_message").at(-1);
    const reason = FINISH[chunk.finishReason];
    if (said !== undefined && reason !== undefined) said.fields.finish_reason = reason;
  }

  _abort() {
    this.ended = "abort";
  }

  #takeData(chunk) {
    if (chunk.type === "data-tp-action") {
      const [key, note] = readNote(chunk.data);
      this.#notes.set(key, note);
    } else if (chunk.type === "data-tp-drop") {
      const named = `${chunk.data?.action_type} ${chunk.data?.ref}`;
      this.#drafts = this.#drafts.filter((draft) => !names(draft).includes(named));
    } else if (!chunk.type.startsWith("data-tp-") && chunk.transient !== true) {
      const draft = this.#draft(dataType(chunk.type), typeof chunk.id === "string" ? chunk.id : "");
      draft.fields.data = chunk.data ?? null;
    }
  }

  /** In a stream that tells no steps, what comes after a tool's output is of another response. */
  #goOn() {
    if (this.#wasAnswered && !this.#hasSteps) this.#step += 1;
    this.#wasAnswered = false;
  }

  #draft(actionType, ref) {
    const draft = draftOf(actionType, ref, this.#step);
    this.#drafts.push(draft);
    this.#byRef.set(`${actionType} ${ref}`, draft);
    return draft;
  }

  /** The assistant message of the step, to which all its texts and files belong. */
  #message(ref) {
    for (const draft of this.#drafts.toReversed()) {
      if (draft.step !== this.#step) break;
      if (draft.actionType === "assistant_message") {
        draft.refs.push(ref);
        return draft;
      }
    }
    return this.#draft("assistant_message", ref);
  }

  #find(actionType, ref) {
    return this.#byRef.get(`${actionType} ${ref}`);
  }

  #giveBack(chunk, status, content) {
    const id = textOf(chunk, "toolCallId");
    const call = this.#find("tool_call", id);
    if (call === undefined) throw unknownCall(chunk);
    const draft = this.#find("tool_return", id) ?? this.#draft("tool_return", id);
    const isProviders = call.fields.provider_executed === true;
    const executed = isProviders ? { provider_executed: true } : {};
    draft.fields = { tool_call_id: id, tool_name: call.fields.tool_name, status, content, ...executed };
    this.#wasAnswered ||= !isProviders;
    return draft;
  }

  #opened(kind, name) {
    const opened = this.#open.get(`${kind} ${name}`);
    if (opened === undefined) throw new InvalidThread(`no ${kind} block ${name} is open; send ${kind}-start before it`);
    return opened;
  }

  #noteOf(draft) {
    return names(draft).map((name) => this.#notes.get(name)).find((note) => note !== undefined);
  }

  #isKept(draft, note) {
    const complete = this.ended === "finish";
    switch (draft.actionType) {
      case "thinking":
        return hasCompleteBlock(draft);
      case "tool_call":
        return complete || this.#drafts.some((other) => other.actionType === "tool_return" && other.refs[0] === draft.refs[0]);
      case "assistant_message":
        return hasCompleteBlock(draft) && (note !== undefined || contentOf(draft) !== "" || !this.#doesMore(draft));
      default:
        return true;
    }
  }

  #doesMore(draft) {
    const more = (other) => other.step === draft.step && ["thinking", "tool_call"].includes(other.actionType);
    return this.#drafts.some((other) => other !== draft && more(other));
  }
}

const { prototype } = StreamReader;
const TAKES = {
  "text-start": prototype._startBlock,
  "reasoning-start": prototype._startBlock,
  "text-delta": prototype._addDelta,
  "reasoning-delta": prototype._addDelta,
  "text-end": prototype._endBlock,
  "reasoning-end": prototype._endBlock,
  "tool-input-start": prototype._startInput,
  "tool-input-delta": prototype._addInput,
  "tool-input-available": prototype._call,
  "tool-input-error": prototype._refuseInput,
  "tool-output-available": prototype._giveBack,
  "tool-output-error": prototype._fail,
  "tool-output-denied": prototype._deny,
  "tool-approval-request": prototype._askApproval,
  "tool-approval-response": prototype._noteApproval,
  error: prototype._report,
  "steering-message": prototype._steer,
  "source-url": prototype._addSource,
  "source-document": prototype._addSource,
  custom: prototype._addSource,
  file: prototype._addFile,
  "reasoning-file": prototype._addFile,
  "start-step": prototype._startStep,
  "finish-step": prototype._finishStep,
  "reset-step": prototype._resetStep,
  start: prototype._learnMetadata,
  "message-metadata": prototype._learnMetadata,
  finish: prototype._finish,
  abort: prototype._abort,
};

function draftOf(actionType, ref, step, fields = {}) {
  return { actionType, refs: [ref], step, fields, said: [] };
}

function names(draft) {
  return draft.refs.map((ref) => `${draft.actionType} ${ref}`);
}

function hasCompleteBlock(draft) {
  return draft.said.some((item) => item.deltas === undefined || item.isComplete);
}

function contentOf(draft) {
  const complete = draft.said.filter((item) => item.deltas === undefined || item.isComplete);
  return joined(complete.map((item) => (item.deltas === undefined ? item : { type: "text", text: item.deltas.join("") })));
}

function members(draft, note) {
  let fields = { ...draft.fields };
  if (draft.actionType === "assistant_message") fields.content = contentOf(draft);
  else if (draft.actionType === "thinking") {
    fields = { provider_name: "unknown", ...fields };
    const content = contentOf(draft);
    if (content !== "") fields.content = content;
  }
  if (note === undefined) return fields;
  if (note.whole) return { ...note.fields };
  const told = (STREAMED[draft.actionType] ?? ["data"]).filter((name) => name in fields);
  return { ...Object.fromEntries(told.map((name) => [name, fields[name]])), ...note.fields };
}

function readNote(data) {
  const { action_type: kind, ref, sequence, timestamp, agent_id: agent, fields, whole } = data ?? {};
  if (![kind, ref, timestamp].every((item) => typeof item === "string") || !Number.isInteger(sequence)) {
    throw new InvalidThread("a data-tp-action chunk needs action_type, ref, sequence and timestamp");
  }
  const isObject = fields !== null && typeof fields === "object";
  const agentId = typeof agent === "string" ? agent : null;
  return [`${kind} ${ref}`, { sequence, timestamp, agentId, fields: isObject ? fields : {}, whole: whole === true }];
}

function userMembers(message) {
  if (message.role !== "user" || !Array.isArray(message.parts)) throw new InvalidThread("it is no UI message of a user");
  const content = [];
  const attachments = [];
  for (const part of message.parts) {
    if (part?.type === "text") content.push({ type: "text", text: String(part.text ?? "") });
    else if (part?.type === "file") addFile(part, content, attachments);
  }
  const isText = content.length === 1 && content[0].type === "text";
  const said = isText ? content[0].text : content.length === 0 ? "" : content;
  return attachments.length > 0 ? { content: said, attachments } : { content: said };
}

function addFile(part, content, attachments) {
  const mediaType = String(part.mediaType || "application/octet-stream");
  const url = String(part.url ?? "");
  if (typeof part.filename !== "string" || part.filename === "") {
    content.push(mediaPart(mediaType, { url }));
    return;
  }
  const { type, ...file } = mediaPart(mediaType, { url, kind: "file" });
  attachments.push({ name: part.filename, ...file });
}

function mediaPart(mediaType, { url = null, data = null, kind = null }) {
  if (url !== null && url.startsWith("data:") && url.includes(";base64,")) {
    const cut = url.indexOf(";base64,");
    data = url.slice(cut + ";base64,".length);
    mediaType = mediaType || url.slice("data:".length, cut).split(";")[0];
    url = null;
  }
  const family = mediaType.split("/")[0];
  const type = kind ?? (["image", "audio", "video"].includes(family) ? family : "file");
  const [where, bytes] = type === "image" ? ["image_url", "image_base64"] : ["url", "data"];
  const part = { type };
  if (url !== null) part[where] = url;
  if (data !== null) part[bytes] = data;
  if (mediaType !== "") part.media_type = mediaType;
  return part;
}

/** The content of the parts of one message: adjacent texts are one; text alone is a string. */
function joined(parts) {
  const merged = [];
  for (const part of parts) {
    const last = merged.at(-1);
    if (part.type === "text" && last?.type === "text") merged[merged.length - 1] = { type: "text", text: last.text + part.text };
    else merged.push(part);
  }
  if (merged.every((part) => part.type === "text")) return merged.length > 0 ? merged[0].text : "";
  return merged.filter((part) => part.text !== "");
}

function learn(draft, chunk) {
  const metadata = chunk.providerMetadata;
  if (draft.actionType !== "thinking" || metadata === null || typeof metadata !== "object") return;
  const own = Object.keys(metadata);
  if (own.length === 0) return;
  const isPydantic = own.includes("pydantic_ai");
  const name = isPydantic ? "pydantic_ai" : own[0];
  const told = metadata[name] ?? {};
  const found = {
    provider_name: isPydantic ? told.provider_name : name,
    signature: told.signature,
    thinking_id: isPydantic ? told.id : told.itemId,
  };
  for (const [key, value] of Object.entries(found)) if (typeof value === "string") draft.fields[key] = value;
}

function momentIn(metadata) {
  const own = metadata?.pydantic_ai;
  const at = own !== null && typeof own === "object" ? own.timestamp : metadata?.timestamp;
  return typeof at === "string" && RFC_3339.test(at) ? normalMoment(at) : null;
}

function jsonArgs(args) {
  if (args === undefined || args === null || (typeof args === "string" && args.trim() === "")) return {};
  if (typeof args !== "string") return args;
  try {
    return JSON.parse(args);
  } catch {
    return args;
  }
}

function dataType(kind) {
  const name = kind.replace("data-", "");
  const plain = `system.${name.replace(/[^A-Za-z0-9_.-]/g, "_").replaceAll("-", "_") || "unnamed"}`;
  return `system.${name}`.replaceAll("-", "_") === plain ? `system.${name}` : plain;
}

function wellFormed(value) {
  if (typeof value === "string") return value.toWellFormed();
  if (Array.isArray(value)) return value.map(wellFormed);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name.toWellFormed(), wellFormed(item)]));
}

function textOf(chunk, name) {
  if (typeof chunk[name] !== "string") throw new InvalidThread(`a ${chunk.type} chunk needs ${name}, a text`);
  return chunk[name];
}

function unknownCall(chunk) {
  return new InvalidThread(`no call ${chunk.toolCallId} was begun; send tool-input-available before it`);
}
