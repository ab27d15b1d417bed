/** One node: what it has, what is on it, and what still fits. */

import { call, explainError } from "../api.js";
import { h, link, replace } from "../dom.js";
import { cluster } from "../cluster.js";
import { ago, amount, count, percent, plural, safe, shortName } from "../format.js";
import { table } from "../table.js";
import { flagTags, groupFacts, shares } from "./nodes/panel.js";

export const title = "Node";

const HOSTNAME = "kubernetes.io/hostname";
const PAGE = 5000;
const RELOAD_PODS = 5000;

export async function mount(root, { parts: [name = ""], signal }) {
  const opened = cluster.open();
  signal.addEventListener("abort", () => opened.close());
  const current = h("div", null, h("p", { class: "loading" }, "Loading the node"));
  const pods = h("section", null, h("h2", null, "Pods"), h("p", { class: "loading" }, "Loading its pods"));
  const labels = h(
    "section",
    null,
    h("h2", null, "Labels and taints"),
    h("p", { class: "loading" }, "Loading its labels"),
  );
  replace(root, h("h1", null, safe(name)), current, pods, labels);
  showLabels(labels, name, signal);
  const loadPods = podList(pods, name, signal);
  await cluster.ready.catch((error) => failed(current, error));
  if (!signal.aborted) {
    follow({ name, current, loadPods, signal });
  }
}

/** Shows the node as the store has it, and again when that changes. */
function follow({ name, current, loadPods, signal }) {
  let loadedAt = Date.now();
  let parts = null;
  const draw = () => {
    const row = cluster.node(name);
    if (row === null) {
      parts = null;
      replace(
        current,
        h(
          "div",
          { class: "notice warning" },
          "The cluster has no node of this name. ",
          link("All nodes", "nodes"),
        ),
      );
      return;
    }
    if (!parts) {
      parts = figuresOf(row);
      replace(current, parts.elements);
    }
    parts.update(row);
  };
  draw();
  const off = cluster.on("change", (rows) => {
    if (rows !== null && !rows.includes(cluster.node(name) ?? -1)) {
      return;
    }
    draw();
    if (Date.now() - loadedAt > RELOAD_PODS) {
      loadedAt = Date.now();
      loadPods();
    }
  });
  signal.addEventListener("abort", off);
}

/** What changes all the time; links and tables stay, so that they keep the focus. */
function figuresOf(row) {
  const tags = h("div", { class: "row" });
  const facts = h("dl", { class: "facts" });
  const used = h("div", null);
  const room = roomTable();
  const drain = link("What if it is drained?", "drain", { query: { nodes: cluster.name(row) } });
  return {
    elements: [
      h("div", { class: "row" }, tags, drain),
      facts,
      h(
        "div",
        { class: "split" },
        h("section", null, h("h2", null, "Requested of allocatable"), used),
        h(
          "section",
          null,
          h("h2", null, "Room"),
          room,
          h(
            "p",
            { class: "muted" },
            "By resources and the number of pods only: taints, affinity and the like are not looked at.",
          ),
        ),
      ),
    ],
    update(at) {
      replace(tags, flagTags(cluster.flags(at)));
      replace(facts, groupFacts(at));
      replace(used, shares(at));
      room.update(cluster.mix.map((entry) => ({ entry, fits: cluster.room(entry, at) })));
    },
  };
}

/** How many pods like those of the cluster still fit. */
function roomTable() {
  const columns = [
    {
      key: "requests",
      title: "A pod that requests",
      cell: ({ entry }) =>
        entry.requests.map((one) => `${safe(one.name)} ${amount(one.name, one.amount)}`).join(", ") ||
        "nothing",
    },
    {
      key: "share",
      title: "Of all pods",
      cell: ({ entry }) => percent(entry.share),
      sort: ({ entry }) => entry.share,
      numeric: true,
    },
    {
      key: "fits",
      title: "More that fit",
      cell: ({ fits }) => count(fits),
      sort: ({ fits }) => fits,
      numeric: true,
    },
  ];
  return table({
    label: "Room for more pods",
    columns,
    rows: [],
    empty: "No requests of pods are known to compare with.",
  });
}

const POD = {
  key: "pod",
  title: "Pod",
  cell: ({ key }) => link(shortName(`${key.namespace}/${key.name}`, 60), "pod", key.namespace, key.name),
  sort: ({ key }) => `${key.namespace}/${key.name}`,
};
const PRIORITY = {
  key: "priority",
  title: "Priority",
  cell: (pod) => count(pod.priority ?? 0),
  sort: (pod) => pod.priority ?? 0,
  numeric: true,
};
const AFTER_REQUESTS = [
  { key: "owner", title: "Owner", cell: (pod) => safe(pod.owner ?? ""), sort: (pod) => pod.owner ?? "" },
  {
    key: "phase",
    title: "Phase",
    cell: (pod) => (pod.assumed ? "assumed" : safe(pod.phase ?? "Pending")),
    sort: (pod) => pod.phase ?? "",
  },
  {
    key: "created",
    title: "Created",
    cell: (pod) => (pod.created ? ago(pod.created) : "–"),
    sort: (pod) => Date.parse(pod.created ?? ""),
  },
];

function requestColumn(resource) {
  return {
    key: `resource ${resource}`,
    title: safe(resource),
    numeric: true,
    cell: (pod) => (pod.requests?.[resource] ? amount(resource, pod.requests[resource]) : "–"),
    sort: (pod) => pod.requests?.[resource] ?? 0,
  };
}

function podTable(rows) {
  const resources = [...new Set(rows.flatMap((pod) => Object.keys(pod.requests ?? {})))];
  const columns = [POD, PRIORITY, ...resources.map(requestColumn), ...AFTER_REQUESTS];
  return table({
    label: "Pods of the node",
    columns,
    rows,
    empty: "No pod is on this node.",
    sort: { key: "pod" },
  });
}

/** Shows the pods of a node; the result loads them again. */
function podList(place, name, signal) {
  const head = h("h2", null, "Pods");
  let shown = null;
  const load = async () => {
    try {
      const found = await pages("/v1/list-pods", { nodeName: name }, "pods", signal, () => false);
      if (shown) {
        shown.update(found);
      } else {
        shown = podTable(found);
        replace(place, head, shown);
      }
    } catch (error) {
      shown = null;
      failed(place, error, head);
    }
  };
  load();
  return load;
}

async function showLabels(place, name, signal) {
  const head = h("h2", null, "Labels and taints");
  try {
    const node = await summaryOf(name, signal);
    const labels = Object.entries(node?.labels ?? {}).sort(([a], [b]) => (a < b ? -1 : 1));
    const columns = [
      {
        key: "key",
        title: "Label",
        cell: ([key]) => h("span", { class: "codelike" }, safe(key)),
        sort: ([key]) => key,
      },
      {
        key: "value",
        title: "Value",
        cell: ([, value]) => h("span", { class: "codelike" }, safe(value)),
        sort: ([, value]) => value,
      },
    ];
    const taints = node?.taints ?? [];
    replace(
      place,
      head,
      h(
        "p",
        null,
        `${plural(taints.length, "taint")}${taints.length > 0 ? ": " : "."}`,
        taints.map((taint) => [h("span", { class: "tag codelike" }, safe(taint)), " "]),
      ),
      table({
        label: "Labels of the node",
        columns,
        rows: labels,
        empty: "It has no labels.",
        sort: { key: "key" },
      }),
    );
  } catch (error) {
    failed(place, error, head);
  }
}

/** The node with labels: found by its hostname, which is its name nearly always, otherwise among all. */
async function summaryOf(name, signal) {
  const isName = ({ name: found }) => found === name;
  if (/^[a-zA-Z0-9._-]+$/.test(name)) {
    const { nodes = [] } = await call(
      "/v1/list-nodes",
      { labelSelector: `${HOSTNAME}=${name}` },
      { signal },
    ).catch(() => ({}));
    const found = nodes.find(isName);
    if (found) {
      return found;
    }
  }
  return (await pages("/v1/list-nodes", {}, "nodes", signal, isName)).find(isName);
}

/** All entries of a listing, up to the page with the wanted one. */
async function pages(path, body, key, signal, isWanted) {
  const all = [];
  let pageToken = "";
  do {
    const answer = await call(path, { ...body, pageSize: PAGE, pageToken }, { signal });
    all.push(...(answer[key] ?? []));
    pageToken = answer.nextPageToken ?? "";
  } while (pageToken !== "" && !all.some(isWanted));
  return all;
}

function failed(place, error, ...before) {
  if (explainError(error) !== "") {
    replace(place, before, h("div", { class: "notice error" }, explainError(error)));
  }
}
