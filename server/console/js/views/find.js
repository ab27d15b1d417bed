/** Pods and nodes whose name contains a text. */

import { announce, h, href, link, replace } from "../dom.js";
import { call, explainError } from "../api.js";
import { cluster } from "../cluster.js";
import { plural, safe, shortName } from "../format.js";
import { table } from "../table.js";

export const title = "Find";

const PAGE = 5000;
const MOST_PAGES = 5;
const MOST_NODES = 500;

export async function mount(root, { query, signal }) {
  const text = query.get("q") ?? "";
  const opened = cluster.open();
  signal.addEventListener("abort", () => opened.close());
  const status = h("p", { class: "loading" }, "Looking at the names of nodes and pods");
  replace(root, h("h1", null, `Find “${safe(text)}”`), status);
  await cluster.ready.catch(() => undefined);
  if (signal.aborted) {
    return;
  }
  if (cluster.node(text) !== null) {
    location.replace(href("node", text));
    return;
  }
  const nodes = cluster.nodes().filter((row) => cluster.name(row).includes(text));
  try {
    const { pods, isWhole, nRead } = await podsNamed(text, signal);
    status.remove();
    root.append(...results(nodes, pods));
    if (!isWhole) {
      root.append(
        h(
          "div",
          { class: "notice" },
          `Only the first ${plural(nRead, "pod")} of the cluster were looked at. ` +
            "For a pod beyond them enter its namespace and name: shop/web-0.",
        ),
      );
    }
    announce(`${plural(nodes.length, "node")} and ${plural(pods.length, "pod")} found`);
  } catch (error) {
    if (!signal.aborted) {
      replace(
        root,
        h("h1", null, title),
        h("div", { class: "notice error" }, explainError(error)),
        results(nodes, []),
      );
    }
  }
}

async function podsNamed(text, signal) {
  const pods = [];
  let pageToken = "";
  let nRead = 0;
  for (let page = 0; page < MOST_PAGES; page++) {
    const answer = await call(
      "/v1/list-pods",
      { includeOffNodes: true, pageSize: PAGE, pageToken },
      { signal },
    );
    nRead += answer.pods?.length ?? 0;
    pods.push(...(answer.pods ?? []).filter((pod) => (pod.key?.name ?? "").includes(text)));
    pageToken = answer.nextPageToken ?? "";
    if (pageToken === "") {
      return { pods, isWhole: true, nRead };
    }
  }
  return { pods, isWhole: false, nRead };
}

function results(nodes, pods) {
  const nodeColumns = [
    {
      key: "name",
      title: "Node",
      cell: (row) => link(shortName(cluster.name(row), 80), "node", cluster.name(row)),
      sort: (row) => cluster.name(row),
    },
    {
      key: "zone",
      title: "Zone",
      cell: (row) => safe(cluster.group("zone", row)),
      sort: (row) => cluster.group("zone", row),
    },
  ];
  const podColumns = [
    {
      key: "pod",
      title: "Pod",
      cell: ({ key }) => link(shortName(`${key.namespace}/${key.name}`, 80), "pod", key.namespace, key.name),
      sort: ({ key }) => `${key.namespace}/${key.name}`,
    },
    {
      key: "node",
      title: "Node",
      cell: (pod) => (pod.nodeName ? link(shortName(pod.nodeName, 60), "node", pod.nodeName) : "none"),
      sort: (pod) => pod.nodeName ?? "",
    },
    { key: "phase", title: "Phase", cell: (pod) => pod.phase ?? "Pending", sort: (pod) => pod.phase ?? "" },
  ];
  return [
    h("h2", null, "Pods"),
    table({ label: "Pods", columns: podColumns, rows: pods, empty: "No pod has such a name." }),
    h("h2", null, "Nodes"),
    table({
      label: "Nodes",
      columns: nodeColumns,
      rows: nodes.slice(0, MOST_NODES),
      empty: "No node has such a name.",
    }),
  ];
}
