// A session: a private fork of the cluster that the server keeps for one question, and drops afterwards.

import { ApiError, call } from "../api.js";
import { plural } from "../format.js";
import { request } from "../http.js";
import { pendingPod } from "./whatif-objects.js";

const PAGE = 500;
/** Deltas, and pods to place, in one call. */
const CHUNK = 1000;

/** Changes that were refused. With only a part of them the answer would be wrong, so there is none. */
export class Refused extends Error {
  /** @param {Array<{what: string, field?: string, reason: string}>} problems */
  constructor(problems) {
    super(`${plural(problems.length, "change")} cannot be made`);
    this.problems = problems;
  }
}

function chunks(items) {
  const starts = Array.from({ length: Math.ceil(items.length / CHUNK) }, (_, at) => at * CHUNK);
  return starts.map((start) => items.slice(start, start + CHUNK));
}

/** The object that a call was refused for: `deltas[3].upsertNode.spec` is of the one in the fourth delta. */
function refusedObject({ field = "", message }, { deltas, entries }) {
  const [, list, at, rest = ""] = /^(deltas|entries)\[(\d+)\]\.\w+\.?(.*)$/s.exec(field) ?? [];
  const [object] = Object.values((list === "deltas" ? deltas : entries)?.[Number(at)] ?? {});
  if (!object) {
    return null;
  }
  const { kind = "Object", metadata: { namespace, name } = {} } = object;
  const what = `${kind} ${[namespace, name].filter(Boolean).join("/")}`;
  return new Refused([{ what, field: rest, reason: message.replace(`\`${field}\`: `, "") }]);
}

/** The error in the reader's terms: which object was refused, or which limit of the session was reached. */
function explained(error, body, maxChanges) {
  if (!(error instanceof ApiError)) {
    return error;
  }
  if (error.code !== "RESOURCE_EXHAUSTED") {
    return refusedObject(error, body) ?? error;
  }
  if (!error.message.includes("session")) {
    return error;
  }
  const limit = maxChanges ? plural(maxChanges, "change") : "some number of changes";
  const reason = `${error.message}. A session holds at most ${limit}, pods that are placed in it included ` +
    "(maxSessionChanges of the server). Ask for fewer or smaller changes.";
  return new Refused([{ what: "All changes together", reason }]);
}

/** A session that is open. */
class Session {
  constructor({ sessionId, maxChanges }, signal) {
    this.id = sessionId;
    this.maxChanges = maxChanges ?? 0;
    this.signal = signal;
  }

  /** A call that is answered from the fork. */
  call(path, body = {}) {
    return call(path, { ...body, sessionId: this.id }, { signal: this.signal });
  }

  /** All pages of a list, as long as there are fewer than `max` items. */
  async list(path, field, body, max = Infinity) {
    const items = [];
    for (let pageToken = ""; ;) {
      const page = await this.call(path, { pageSize: PAGE, ...body, ...(pageToken && { pageToken }) });
      for (const item of page[field] ?? []) {
        items.push(item);
      }
      pageToken = page.nextPageToken ?? "";
      if (!pageToken || items.length >= max) {
        return { items: items.slice(0, max), isWhole: !pageToken && items.length <= max };
      }
    }
  }

  /**
   * Makes all changes, or fails with those that are refused.
   * @param {Object[]} deltas
   * @param {{admit?: boolean}} options `admit` makes pods what an API server would store
   */
  async apply(deltas, { admit = false } = {}) {
    const problems = [];
    for (const chunk of chunks(deltas)) {
      const { rejections = [] } = await this.change("/v1/sessions/apply", {
        deltas: chunk,
        ...(admit && { admit }),
      });
      for (const { object, field, reason } of rejections) {
        problems.push({ what: object ?? "an object", field, reason: reason ?? "no reason is given" });
      }
    }
    if (problems.length > 0) {
      throw new Refused(problems);
    }
  }

  /**
   * Places pods, the most urgent first. Those that fit nowhere are pending in the session from then on.
   * @param {Array<{pod: Object, isKnown?: boolean, admit?: boolean}>} entries `isKnown` pods are pending
   * @returns {Promise<Array<{node: string, reason: string}>>} in the order of the entries
   */
  async place(entries) {
    const outcomes = new Array(entries.length);
    const order = entries.map((entry, at) => ({ entry, at }));
    order.sort((a, b) => (b.entry.pod.spec?.priority ?? 0) - (a.entry.pod.spec?.priority ?? 0));
    for (const chunk of chunks(order)) {
      const body = {
        mode: "PLACE_MODE_ASSUME",
        entries: chunk.map(({ entry }) => ({ pod: entry.pod })),
        ...(chunk.some(({ entry }) => entry.admit) && { admit: true }),
      };
      const { results = [] } = await this.change("/v1/place-batch", body);
      chunk.forEach(({ at }, position) => {
        outcomes[at] = outcomeOf(results[position]);
      });
    }
    const isToWait = ({ isKnown, admit }, { node, isError }) => !node && !isKnown && !(isError && admit);
    const waiting = entries.filter((entry, at) => isToWait(entry, outcomes[at]));
    await this.apply(
      waiting.map(({ pod }) => ({ upsertPod: pendingPod(pod) })),
      { admit: waiting.some((entry) => entry.admit) },
    );
    return outcomes;
  }

  /** A call that counts for the session's limit. */
  async change(path, body) {
    try {
      return await this.call(path, body);
    } catch (error) {
      throw explained(error, body, this.maxChanges);
    }
  }

  /** Ends the session. Also works while the page is being left. */
  close() {
    const options = {
      method: "POST",
      keepalive: true,
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ sessionId: this.id }),
    };
    // A session that cannot be closed ends by itself when nobody has used it for a while.
    request("/v1/sessions/close", options).catch(() => undefined);
  }
}

function outcomeOf(result) {
  const { placement, unschedulable, gated } = result?.decision ?? {};
  if (placement) {
    return { node: placement.nodeName ?? "", reason: "" };
  }
  if (result?.error) {
    return { node: "", reason: result.error.message ?? "no reason is given", isError: true };
  }
  const held = gated && `held back by ${gated.plugin ?? "a plugin"}: ${(gated.reasons ?? []).join(", ")}`;
  return { node: "", reason: unschedulable?.message ?? held ?? "no reason is given" };
}

/**
 * Opens a session, does the work in it, and closes it whatever happens.
 * @param {AbortSignal} signal
 * @param {function(Session): Promise} work
 */
export async function inSession(signal, work) {
  // Not ended by the signal: a session whose id never came could not be closed.
  const session = new Session(await call("/v1/sessions/open"), signal);
  const close = () => session.close();
  addEventListener("pagehide", close);
  try {
    signal.throwIfAborted();
    return await work(session);
  } finally {
    removeEventListener("pagehide", close);
    close();
  }
}
