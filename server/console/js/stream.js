/**
 * The server's stream of events, one for the whole page. EventSource cannot send a token, so this reads it by
 * hand.
 */

import { request } from "./http.js";

const FIRST_WAIT = 500;
const LONGEST_WAIT = 10_000;
/** Browsers allow six connections to a server without HTTP/2: a tab that nobody sees gives its own back. */
const HIDDEN_FOR = 5_000;

const subscribers = new Set();
const stateListeners = new Set();
let state = "closed";
let running = null;
let hiddenTimer = 0;
/** Whether the browser only keeps the page for the way back. */
let isLeft = false;

/**
 * Subscribes to the events of the server.
 * @param {{onOpen?: function(), onNodes?: function(ArrayBuffer), onCounts?: function(Object), onDecision?:
 *   function(Object), onResync?: function(), onClosed?: function()}} handlers `onOpen` is called for each
 *   connection, and at once if there is one
 * @returns {{close: function()}}
 */
export function events(handlers) {
  subscribers.add(handlers);
  if (state === "live") {
    queueMicrotask(() => subscribers.has(handlers) && handlers.onOpen?.());
  }
  settle();
  return {
    close() {
      subscribers.delete(handlers);
      settle();
    },
  };
}

/**
 * Tells of the connection: `live`, `reconnecting`, `paused` (the tab is hidden) or `closed`.
 * @param {function(string)} listener called at once and on each change
 */
export function streamState(listener) {
  stateListeners.add(listener);
  listener(state);
}

document.addEventListener("visibilitychange", () => {
  clearTimeout(hiddenTimer);
  if (document.hidden) {
    hiddenTimer = setTimeout(settle, HIDDEN_FOR, true);
  } else {
    settle();
  }
});

addEventListener("pagehide", () => {
  isLeft = true;
  settle();
});
addEventListener("pageshow", () => {
  isLeft = false;
  settle();
});

/** Runs the stream if somebody wants it, and ends it otherwise. */
function settle(isHidden = false) {
  const wanted = subscribers.size > 0 && !isHidden && !isLeft;
  if (wanted && !running) {
    running = new AbortController();
    run(running.signal);
  } else if (!wanted && running) {
    running.abort();
    running = null;
    setState(subscribers.size > 0 ? "paused" : "closed");
  }
}

function setState(next) {
  const wasLive = state === "live";
  if (state === next) {
    return;
  }
  state = next;
  stateListeners.forEach((listener) => listener(next));
  if (next === "live") {
    tell("onOpen");
  } else if (wasLive) {
    tell("onClosed");
  }
}

function tell(handler, ...values) {
  for (const subscriber of [...subscribers]) {
    try {
      subscriber[handler]?.(...values);
    } catch (error) {
      // One subscriber's failure must not end the stream of the others.
      reportError(error);
    }
  }
}

async function run(signal) {
  let wait = FIRST_WAIT;
  while (!signal.aborted) {
    try {
      const headers = { Accept: "text/event-stream" };
      const response = await request("/console/events", { signal, headers, isBackground: true });
      setState("live");
      wait = FIRST_WAIT;
      await readEvents(response.body.getReader());
    } catch {
      // Whatever went wrong, the next attempt shows whether it lasts.
    }
    if (signal.aborted) {
      return;
    }
    setState("reconnecting");
    // A little chance keeps the tabs of a team from returning at the same moment.
    await pause(wait * (0.75 + Math.random() / 2), signal);
    wait = Math.min(wait * 2, LONGEST_WAIT);
  }
}

function pause(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}

async function readEvents(reader) {
  const decoder = new TextDecoder();
  let text = "";
  let event = "";
  let data = [];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) {
      return;
    }
    text += decoder.decode(value, { stream: true });
    let from = 0;
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", from)) {
      const line = text.slice(from, text[end - 1] === "\r" ? end - 1 : end);
      from = end + 1;
      if (line === "") {
        dispatch(event, data.join("\n"));
        event = "";
        data = [];
      } else if (line.startsWith("event:")) {
        event = line.slice(6).trim();
      } else if (line.startsWith("data:")) {
        data.push(line.slice(line[5] === " " ? 6 : 5));
      }
    }
    text = text.slice(from);
  }
}

function dispatch(event, data) {
  if (event === "nodes") {
    if ([...subscribers].some((subscriber) => subscriber.onNodes)) {
      tell("onNodes", fromBase64(data));
    }
  } else if (event === "counts") {
    tell("onCounts", JSON.parse(data));
  } else if (event === "decision") {
    tell("onDecision", JSON.parse(data));
  } else if (event === "resync") {
    tell("onResync");
  }
}

function fromBase64(text) {
  if (Uint8Array.fromBase64) {
    return Uint8Array.fromBase64(text).buffer;
  }
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) {
    bytes[i] = binary.charCodeAt(i);
  }
  return bytes.buffer;
}
