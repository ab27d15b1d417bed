// Whom a pod would displace.

import { announce, h, replace } from "../dom.js";
import { call } from "../api.js";
import { request } from "../http.js";
import { count, plural, safe } from "../format.js";
import { table } from "../table.js";
import { eviction } from "../parts/eviction.js";
import { keyOf, nodeLink, podLink, podName, sentence } from "../parts/podwords.js";
import { fill } from "../parts/states.js";
import { bestCandidatesFirst, victimNames } from "../parts/victims.js";

export const title = "Preemption";

const N_CANDIDATES = 100;
const N_PICKED = 500;
const INTRODUCTION = "A pod that fits no node may take the room of pods of lower priority. This shows which "
  + "pods kube-scheduler would evict for it. Nothing is evicted.";
const EXAMPLE = `apiVersion: v1
kind: Pod
metadata: {namespace: default, name: example}
spec:
  priority: 1000
  containers:
  - name: main
    resources: {requests: {cpu: "4", memory: 8Gi}}`;

/** Fills in `NS/NAME` from the pods that wait, those of the highest priority first. */
async function offerPods(datalist, hint, signal) {
  const answer = await call("/v1/list-pods", { waits: true, pageSize: N_PICKED }, { signal });
  const pods = (answer.pods ?? []).sort((a, b) => (b.priority ?? 0) - (a.priority ?? 0));
  const option = ({ key, priority = 0 }) =>
    h("option", { value: podName(key) }, `${safe(podName(key))}, priority ${count(priority)}`);
  replace(datalist, pods.map(option));
  const more = answer.nextPageToken ? " Type the name of any other one." : "";
  const wait = pods.length === 1 ? "waits" : "wait";
  hint.textContent = `${plural(pods.length, "pod")} that ${wait} can be picked.${more}`;
}

function checkbox(name, text, query) {
  const input = h("input", { type: "checkbox", name, checked: query.get(name) === "1" });
  return h("label", null, input, " ", text);
}

function pickForm({ query, onPick, signal }) {
  const datalist = h("datalist", { id: "preemption-pods" });
  const hint = h("span", { class: "muted" });
  const pod = h("input", { name: "pod", list: "preemption-pods", required: true,
    placeholder: "NAMESPACE/NAME", value: query.get("pod") ?? "", autocomplete: "off", spellcheck: "false" });
  const form = h("form", { class: "toolbar" },
    h("label", null, "Pod ", pod), datalist,
    h("div", { class: "row" }, checkbox("refuse", "Never act against a disruption budget", query),
      checkbox("prefer", "Prefer victims that find another node", query)),
    h("button", { class: "primary" }, "Who would go?"), hint);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    onPick({ pod: pod.value.trim(), ...switches(form) });
  });
  offerPods(datalist, hint, signal).catch(() => {
    hint.textContent = "The pods that wait could not be listed: type a name.";
  });
  return form;
}

function switches(form) {
  const isOn = (name) => (form.elements.namedItem(name).checked ? "1" : "");
  return { refuse: isOn("refuse"), prefer: isOn("prefer") };
}

function pasteForm(onPaste) {
  const text = h("textarea", { id: "preemption-manifest", name: "manifest", rows: "10", class: "codelike",
    spellcheck: "false", placeholder: EXAMPLE, required: true });
  const form = h("form", null,
    h("label", { for: "preemption-manifest" }, "Manifest of a pod, in YAML or JSON"), text,
    h("p", { class: "muted" }, "It is asked about only: nothing is created, and no pod is evicted."),
    h("button", null, "Who would go for it?"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    onPaste(text.value);
  });
  return h("details", null, h("summary", null, "Ask about a pod that is not in the cluster"), form);
}

/** Question about a pod of the cluster, or about a pasted manifest. */
function questionOf({ pod, manifest, refuse, prefer }, signal) {
  const placement = prefer ? "prefer" : "report";
  if (manifest !== undefined) {
    const query = `options.victimPlacement=${placement}${refuse ? "&options.refusePdbViolations=true" : ""}`;
    const ask = async (path) => {
      const headers = { "Content-Type": "application/yaml" };
      const response = await request(`${path}?${query}`, { method: "POST", headers, body: manifest, signal });
      return response.json();
    };
    return { name: "The pod", ask };
  }
  const options = {
    victimPlacement: prefer ? "VICTIM_PLACEMENT_PREFER" : "VICTIM_PLACEMENT_REPORT",
    ...(refuse ? { refusePdbViolations: true } : {}),
  };
  return { name: pod, ask: (path) => call(path, { key: keyOf(pod), options }, { signal }) };
}

function candidateTable(answer, chosen) {
  const all = answer.candidates ?? [];
  const bestNames = new Set(answer.bestNodeNames ?? []);
  const shown = bestCandidatesFirst(all).slice(0, N_CANDIDATES);
  const isBest = (it) => bestNames.has(it.nodeName);
  const mark = (it) => (it.nodeName === chosen ? "→ chosen" : isBest(it) ? "equal to it" : "-");
  const list = table({
    label: "Candidate nodes",
    columns: [
      { key: "node", title: "Node", cell: (it) => nodeLink(it.nodeName), sort: (it) => it.nodeName ?? "" },
      { key: "best", title: "Best", cell: mark, sort: (it) => Number(!isBest(it)) },
      { key: "victims", title: "Victims", cell: (it) => count(it.victims?.length ?? 0),
        sort: (it) => it.victims?.length ?? 0, numeric: true },
      { key: "priority", title: "Highest priority", cell: (it) => count(it.victims?.[0]?.priority ?? 0),
        sort: (it) => it.victims?.[0]?.priority ?? 0, numeric: true },
      { key: "pdb", title: "Against a budget", cell: (it) => count(it.nPdbViolations ?? 0),
        sort: (it) => it.nPdbViolations ?? 0, numeric: true },
      { key: "evicted", title: "Evicted", cell: (it) => h("span", null, victimNames(it)) },
    ],
    rows: shown,
  });
  const best = `The best ${count(shown.length)} of ${plural(all.length, "candidate")}.`;
  const more = all.length > shown.length ? h("p", { class: "muted" }, best) : null;
  const nOthers = answer.notHelped?.length ?? 0;
  const others = nOthers > 0
    ? h("p", null, `On ${plural(nOthers, "more node")} evicting pods was tried and does not help.`) : null;
  return h("div", null, list, more, others);
}

/** The other candidates, which are asked for with a button. */
function candidateSection(question, chosen) {
  return (update) => {
    const slot = h("div");
    const load = async () => {
      const answer = await fill(slot, {
        wait: "Listing the candidates ...",
        load: () => question.ask("/v1/list-candidates"),
        draw: (it) => candidateTable(it, chosen),
      });
      if (answer) {
        update(answer.candidates ?? []);
        announce(`${plural(answer.candidates?.length ?? 0, "candidate")} listed`);
      }
    };
    const warning = "The answer has each candidate's victims: tens of megabytes for thousands of nodes.";
    replace(slot,
      h("p", null, warning),
      h("button", { type: "button", on: { click: load } }, "List the other candidates"));
    return [h("h2", null, "Other candidates"), slot];
  };
}

function drawAnswer(answer, { question, asked, signal }) {
  const { decision, postFilter } = answer;
  const name = podName(decision?.pod ?? keyOf(asked.pod ?? ""));
  return h(
    "div",
    null,
    h("p", null, sentence(name, decision)),
    asked.pod ? h("p", null, podLink(keyOf(asked.pod), "Account of the pod, node by node")) : null,
    eviction({
      decision,
      ran: postFilter,
      podText: name,
      prefersElsewhere: Boolean(asked.prefer),
      live: signal,
      candidates: candidateSection(question, postFilter?.chosen?.nodeName),
    }),
  );
}

/** Fills the view. */
export function mount(root, { query, setQuery, signal }) {
  const slot = h("section", { "aria-label": "Result" });
  let current = new AbortController();
  const ask = async (asked) => {
    current.abort();
    current = new AbortController();
    const both = AbortSignal.any([signal, current.signal]);
    const question = questionOf(asked, both);
    const answer = await fill(slot, {
      wait: "Looking for pods to evict ...",
      load: () => question.ask("/v1/preempt"),
      draw: (it) => drawAnswer(it, { question, asked, signal: both }),
    });
    if (answer) {
      const n = answer.postFilter?.chosen?.victims?.length ?? 0;
      announce(n > 0 ? `${plural(n, "pod")} would go` : "Nobody would go");
    }
  };
  const onPick = (asked) => {
    if (!keyOf(asked.pod)) {
      replace(slot, h("p", { class: "notice error" }, "Name the pod as NAMESPACE/NAME."));
      return;
    }
    setQuery(asked, { replace: false });
    ask(asked);
  };
  const form = pickForm({ query, onPick, signal });
  replace(root, h("h1", null, "Whom would a pod displace?"), h("p", null, INTRODUCTION), form,
    pasteForm((manifest) => ask({ manifest, ...switches(form) })), slot);
  if (keyOf(query.get("pod") ?? "")) {
    ask({ pod: query.get("pod"), ...switches(form) });
  }
}
