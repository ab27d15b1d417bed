// Why pods are pending: the pods that wait for a node, by cause.

import { announce, h, replace } from "../dom.js";
import { call, events } from "../api.js";
import { count, duration, plural, time } from "../format.js";
import { pendingCards } from "../parts/pendingcards.js";
import { failure, isAborted, loading } from "../parts/states.js";

export const title = "Why pending";

const REFRESH_MS = 15_000;
/** Refreshing takes at most this part of the server's time. */
const LEAST_PAUSE = 10;
const ALL_PODS = 10_000;
const ALL_GROUPS = 1_000;

function figures(answer) {
  const figure = (label, n) => h("div", null, h("dt", null, label), h("dd", null, count(n)));
  return h(
    "dl",
    { class: "figures" },
    figure("Pods that wait", answer.nPods ?? 0),
    figure("Causes", answer.nGroups ?? 0),
    answer.nNotDecided ? figure("Not looked at", answer.nNotDecided) : null,
  );
}

/** What the answer leaves out, with a button that asks for it. */
function leftOut(answer, onAll) {
  const nGroups = (answer.nGroups ?? 0) - (answer.groups?.length ?? 0);
  const nPods = answer.nNotDecided ?? 0;
  if (nGroups <= 0 && nPods === 0) {
    return null;
  }
  const causes = nGroups > 0 ? `${plural(nGroups, "more cause")} with fewer pods not shown. ` : "";
  const pods = nPods > 0 ? `${plural(nPods, "pod")} at the end of the queue not looked at. ` : "";
  return h("div", { class: "notice" }, `${causes}${pods}`,
    h("button", { type: "button", on: { click: onAll } }, "Look at more (takes longer)"));
}

function namespaceForm(query, onChange) {
  const datalist = h("datalist", { id: "pending-namespaces" });
  const input = h("input", { name: "namespace", list: "pending-namespaces", placeholder: "all",
    value: query.get("namespace") ?? "", autocomplete: "off", spellcheck: "false" });
  const form = h("form", { class: "toolbar" }, h("label", null, "Namespace ", input), datalist,
    h("button", null, "Filter"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    onChange(input.value.trim());
  });
  const known = new Set();
  const offer = (groups) => {
    groups.flatMap((group) => group.workloads ?? []).forEach((it) => known.add(it.namespace ?? ""));
    replace(datalist, [...known].sort().map((name) => h("option", { value: name })));
  };
  return { form, offer, namespace: () => input.value.trim() };
}

/** Asks twice: at first quickly, then once more for what would help. */
async function ask(body, { signal, onAnswer }) {
  const began = performance.now();
  onAnswer(await call("/v1/list-pending", { ...body, withoutRemedies: true }, { signal }), false);
  onAnswer(await call("/v1/list-pending", body, { signal }), true);
  return performance.now() - began;
}

/** What the view knows, and the parts of the page that show it. */
function page(root, { query, onFilter, onRefresh, onAll }) {
  const cards = pendingCards();
  const summary = h("div", null, loading("Loading the pods that wait ..."));
  const status = h("p", { class: "muted" });
  const filter = namespaceForm(query, onFilter);
  const button = h("button", { type: "button", on: { click: onRefresh } }, "Refresh");
  const head = h("div", { class: "spread" }, h("h1", null, "Why pods are pending"), button);
  replace(root, head, filter.form, summary, status, cards.element);

  const show = (answer, isWhole, seconds) => {
    const namespace = filter.namespace();
    const where = namespace ? ` in namespace ${namespace}` : "";
    const none = h("p", { class: "notice good" }, `No pod waits for a node${where}.`);
    replace(summary, (answer.nPods ?? 0) === 0 ? none : figures(answer), leftOut(answer, onAll));
    replace(status, "As of ", time(new Date().toISOString()), `, answered in ${duration(seconds)}`,
      isWhole || !answer.nPods ? "." : "; trying what would help ...");
    filter.offer(answer.groups ?? []);
    cards.update(answer, isWhole);
  };
  const fail = (error) => replace(summary, failure(error, onRefresh));
  return { show, fail };
}

/** Calls `load` each 15 s while the page is seen and the cluster has changed; returns what ends it. */
function refreshing({ shownGeneration, load }) {
  let latest = 0;
  let pauseUntil = 0;
  let isLoading = false;
  const stream = events({ onCounts: (counts) => (latest = counts.generation ?? 0) });
  const timer = setInterval(async () => {
    const isDue = latest !== 0 && latest !== shownGeneration() && performance.now() >= pauseUntil;
    if (document.hidden || isLoading || !isDue) {
      return;
    }
    isLoading = true;
    const took = await load();
    isLoading = false;
    pauseUntil = performance.now() + LEAST_PAUSE * took;
  }, REFRESH_MS);
  return () => {
    clearInterval(timer);
    stream.close();
  };
}

/** Fills the view. */
export function mount(root, { query, setQuery, signal }) {
  const state = { namespace: query.get("namespace") ?? "", isAll: query.get("all") === "1", generation: 0 };
  let current = new AbortController();

  const load = async ({ isAsked }) => {
    current.abort();
    current = new AbortController();
    const limits = state.isAll ? { maxPods: ALL_PODS, maxGroups: ALL_GROUPS } : {};
    const began = performance.now();
    const onAnswer = (answer, isWhole) => {
      state.generation = answer.generation ?? 0;
      view.show(answer, isWhole, (performance.now() - began) / 1000);
      if (isAsked && !isWhole) {
        announce(`${plural(answer.nPods ?? 0, "pod")} that wait, ${plural(answer.nGroups ?? 0, "cause")}`);
      }
    };
    try {
      return await ask({ namespace: state.namespace, ...limits },
        { signal: AbortSignal.any([signal, current.signal]), onAnswer });
    } catch (error) {
      if (!isAborted(error)) {
        view.fail(error);
      }
      return performance.now() - began;
    }
  };
  const again = (change) => {
    Object.assign(state, change);
    setQuery({ namespace: state.namespace, all: state.isAll ? "1" : "" });
    load({ isAsked: true });
  };
  const view = page(root, {
    query,
    onFilter: (namespace) => again({ namespace }),
    onRefresh: () => load({ isAsked: true }),
    onAll: () => again({ isAll: true }),
  });
  load({ isAsked: false });
  return refreshing({ shownGeneration: () => state.generation, load: () => load({ isAsked: false }) });
}
