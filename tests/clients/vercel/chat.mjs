// A page's chat without the page: the real `Chat` of @ai-sdk/react with the SDK's own transport, driven by a list of steps.
// Reads {api, id, threadprotocol, steps, messages?, body?, headers?, namesMessage?} from standard input, writes what the user would see, and what was sent.

import { Chat } from "@ai-sdk/react";
import {
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
} from "ai";
import { text } from "node:stream/consumers";

const given = JSON.parse(await text(process.stdin));
const { StreamReader, canonical } = await import(given.threadprotocol);
const requests = [];
const transient = [];
const errors = [];
let reader = null;
let cutAfter = null;

function newReader(user) {
  reader = new StreamReader({ agentId: "unknown", notBefore: "2000-01-01T00:00:00Z" });
  if (user !== undefined) reader.takeUser(user);
}

// The SDK's fetch, with an ear on it; after `cutAfter` chunks the connection breaks, as a network does.
async function heard(url, init) {
  const body = init.body === undefined ? null : JSON.parse(init.body);
  const last = (body?.messages ?? chat.messages.filter((message) => message.role === "user")).at(-1);
  if (last?.role === "user") newReader(last);
  const response = await fetch(url, init);
  const request = { url: String(url), method: init.method, status: response.status, chunks: [], actions: [], done: false };
  request.headers = Object.fromEntries(response.headers);
  requests.push(request);
  if (response.status !== 200) {
    request.body = await response.clone().text();
    return response;
  }
  let open = "";
  const decoder = new TextDecoder();
  const ear = new TransformStream({
    transform(bytes, controller) {
      open += decoder.decode(bytes, { stream: true });
      const frames = open.split("\n\n");
      open = frames.pop();
      for (const frame of frames) {
        if (!frame.startsWith("data: ")) continue;
        if (frame === "data: [DONE]") {
          request.done = true;
        } else {
          const chunk = JSON.parse(frame.slice("data: ".length));
          request.chunks.push(chunk);
          reader?.take(chunk);
        }
        controller.enqueue(new TextEncoder().encode(`${frame}\n\n`));
        if (cutAfter !== null && request.chunks.length >= cutAfter) {
          cutAfter = null;
          controller.error(new TypeError("network error"));
          return;
        }
      }
    },
    flush() {
      request.actions = (reader?.actions() ?? []).map(canonical);
    },
  });
  return new Response(response.body.pipeThrough(ear), response);
}

// With the message's id its stream is told again even if its run has ended meanwhile.
const naming = {
  prepareReconnectToStreamRequest: ({ api, id }) => ({ api: `${api}/${id}/stream?message=${chat.lastMessage.id}` }),
};
const transport = new DefaultChatTransport({
  api: given.api,
  fetch: heard,
  headers: given.headers,
  body: given.body,
  ...(given.namesMessage ? naming : {}),
});

function open(messages) {
  return new Chat({
    id: given.id,
    messages,
    transport,
    onError: (error) => errors.push(error.message),
    onData: (part) => transient.push(part),
    sendAutomaticallyWhen: (state) =>
      lastAssistantMessageIsCompleteWithApprovalResponses(state) || lastAssistantMessageIsCompleteWithToolCalls(state),
  });
}

let chat = open(given.messages);

function toolParts(state, name) {
  const parts = chat.messages.flatMap((message) => message.parts);
  return parts.filter((part) => part.state === state && (name === undefined || part.type === `tool-${name}`));
}

async function until(holds) {
  const parent = process.ppid;
  while (!holds()) {
    if (process.ppid !== parent) process.exit(1); // nobody waits for it any more
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

// The SDK sends answers by itself once the last one is given.
async function answeredBy(act) {
  const before = requests.length;
  await act();
  await until(() => requests.length > before && ["ready", "error"].includes(chat.status));
}

const STEPS = {
  send: ({ text: said, files }) => chat.sendMessage({ text: said, files }),
  edit: ({ index, text: said }) => chat.sendMessage({ text: said, messageId: chat.messages[index].id }),
  regenerate: ({ messageId }) => chat.regenerate({ messageId }),
  cut: ({ after }) => void (cutAfter = after),
  resume: () => chat.resumeStream(),
  approve: ({ approved, reason }) =>
    answeredBy(async () => {
      for (const part of toolParts("approval-requested")) {
        await chat.addToolApprovalResponse({ id: part.approval.id, approved, reason });
      }
    }),
  output: ({ tool, output, errorText }) =>
    answeredBy(async () => {
      for (const part of toolParts("input-available", tool)) {
        const state = errorText === undefined ? "output-available" : "output-error";
        await chat.addToolOutput({ state, tool, toolCallId: part.toolCallId, output, errorText });
      }
    }),
  call: async ({ path, method }) => {
    const response = await fetch(`${given.api}/${encodeURIComponent(given.id)}${path}`, { method, headers: given.headers });
    requests.push({ url: path, method, status: response.status, body: await response.text(), chunks: [], actions: [] });
  },
  reload: async () => {
    const response = await fetch(`${given.api}/${encodeURIComponent(given.id)}`, { headers: given.headers });
    chat = open((await response.json()).messages);
    await chat.resumeStream();
  },
};

for (const step of given.steps) await STEPS[step.op](step);
const { messages, status } = chat;
console.log(JSON.stringify({ status, messages, requests, transient, errors }));
process.exit(0);
