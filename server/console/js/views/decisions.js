// Decisions: as they are made, and those of the journal.

import { announce, h, replace } from "../dom.js";
import { call, events } from "../api.js";
import { count, plural, time } from "../format.js";
import { table } from "../table.js";
import { decisionColumns, isMatch, liveStore, N_LIVE, withoutRecorded } from "../parts/decisionlist.js";
import { requestOf, searchForm, searchOf } from "../parts/decisionsearch.js";
import { failure, isAborted, loading } from "../parts/states.js";

export const title = "Decisions";

const DRAW_MS = 500;
const PAGE_SIZE = 100;

const NO_JOURNAL = "This server records no decisions: it was started without --journal. The table has those "
  + "that are made while this page is open.";

/** The history: rows found so far, and whether there may be more. */
function history({ signal, onChange }) {
  const state = { rows: [], next: "", searchedTo: "", isLoading: false, error: null, isRecorded: true };
  let current = new AbortController();
  const load = async (search, pageToken) => {
    current.abort();
    current = new AbortController();
    Object.assign(state, { isLoading: true, error: null });
    onChange();
    try {
      const body = { ...requestOf(search), pageSize: PAGE_SIZE, ...(pageToken ? { pageToken } : {}) };
      const both = AbortSignal.any([signal, current.signal]);
      const answer = await call("/v1/decisions/list", body, { signal: both });
      state.rows = [...(pageToken ? state.rows : []), ...(answer.decisions ?? [])];
      Object.assign(state, { next: answer.nextPageToken ?? "", searchedTo: answer.searchedTo ?? "" });
    } catch (error) {
      if (isAborted(error)) {
        return false;
      }
      state.isRecorded = error.code !== "FAILED_PRECONDITION";
      state.error = state.isRecorded ? error : null;
    }
    state.isLoading = false;
    onChange();
    return !state.error;
  };
  return { state, load };
}

function foundText(state) {
  const n = state.rows.length;
  const found = n === 0 ? "No recorded decision found" : `${plural(n, "recorded decision")} found`;
  const back = state.searchedTo ? [", searched back to ", time(state.searchedTo)] : [];
  const end = ". The search has reached the beginning of the journal.";
  return h("p", null, found, state.next ? [back, "."] : end);
}

/** What is known of the history, with what can be done next. */
function historyStatus(state, { onMore, onAgain }) {
  if (!state.isRecorded) {
    return h("p", { class: "notice warning" }, NO_JOURNAL);
  }
  if (state.error) {
    return failure(state.error, onAgain);
  }
  if (state.isLoading) {
    return loading("Searching the journal ...");
  }
  const more = h("button", { type: "button", on: { click: onMore } }, "Search further back");
  return h("div", { class: "row" }, foundText(state), state.next ? more : null);
}

/** The switch of the live rows: a button, its state in words, and the number of rows that nobody has seen. */
function liveBar(onToggle) {
  const button = h("button", { type: "button", "aria-pressed": "false", on: { click: onToggle } }, "Pause");
  const status = h("span", { class: "muted" });
  const missed = h("span", { class: "tag warn", hidden: true });
  const element = h("div", { class: "row" }, button, status, missed);
  const update = ({ isPaused, isHeld, isOpen, store }) => {
    button.setAttribute("aria-pressed", String(isPaused));
    const nNew = store.nNew >= N_LIVE ? `${count(N_LIVE)} or more` : count(store.nNew);
    status.textContent = isPaused ? `Live decisions are paused, ${nNew} new.`
      : isHeld ? `Waiting while a row has the focus, ${nNew} new.`
        : isOpen ? "Live: new decisions come in at the top." : "Not connected: no new decisions come in.";
    missed.hidden = store.nMissed === 0;
    missed.textContent = `${count(store.nMissed)} missed: more came than could be sent`;
  };
  return { element, update };
}

/** The table, in which Space pauses while it has the focus itself. */
function decisionTable({ onHistory, hasHistory, onToggle }) {
  const element = table({
    label: "Decisions. Space pauses new ones.",
    columns: decisionColumns({ onHistory, hasHistory }),
    rows: [],
    empty: "No decisions to show yet.",
  });
  element.addEventListener("keydown", (event) => {
    if (event.key === " " && event.target.getAttribute("role") === "region") {
      event.preventDefault();
      onToggle();
    }
  });
  const hasFocus = () => document.activeElement?.closest("tbody") && element.contains(document.activeElement);
  return { element, hasFocus: () => Boolean(hasFocus()) };
}

/** Live rows and rows of the history in one table. Returns what the view changes in it. */
function board({ store, past, onHistory, onMore, onAgain }) {
  const state = { isPaused: false, isOpen: false, search: null, live: [] };
  const status = h("div");
  const toggle = () => {
    state.isPaused = !state.isPaused;
    announce(state.isPaused ? "Live decisions paused" : "Live decisions continue");
    draw(true);
  };
  const bar = liveBar(toggle);
  const list = decisionTable({ onHistory, hasHistory: () => past.state.isRecorded, onToggle: toggle });
  const draw = (isAsked) => {
    const isHeld = !isAsked && list.hasFocus();
    const isStill = state.isPaused || isHeld;
    if (!isStill && (isAsked || store.nNew > 0)) {
      state.live = [...store.take()];
    }
    if (isAsked || (!isStill && state.drawn !== state.live)) {
      state.drawn = state.live;
      const matching = state.live.filter((row) => isMatch(row, state.search));
      list.element.update([...withoutRecorded(matching, past.state.rows), ...past.state.rows]);
    }
    bar.update({ ...state, isHeld, store });
  };
  const drawHistory = () => {
    replace(status, historyStatus(past.state, { onMore, onAgain }));
    draw(true);
  };
  return { elements: [bar.element, status, list.element], state, draw, drawHistory };
}

/** Fills the view. */
export function mount(root, { query, setQuery, signal }) {
  const store = liveStore();
  const past = history({ signal, onChange: () => view.drawHistory() });
  const search = async (next, { isAsked }) => {
    view.state.search = next;
    past.state.rows = [];
    if (isAsked) {
      setQuery(next, { replace: false });
    }
    if (await past.load(next, "") && isAsked) {
      announce(`${plural(past.state.rows.length, "recorded decision")} found`);
    }
  };
  const more = async () => {
    const before = past.state.rows.length;
    if (await past.load(view.state.search, past.state.next)) {
      announce(`${plural(past.state.rows.length - before, "more decision")} found`);
    }
  };
  const form = searchForm(searchOf(query), (next) => search(next, { isAsked: true }));
  const view = board({
    store,
    past,
    onMore: more,
    onAgain: () => search(view.state.search, { isAsked: false }),
    onHistory: ({ namespace = "", name = "" }) => {
      const next = { ...searchOf(new URLSearchParams()), namespace, podName: name };
      form.set(next);
      search(next, { isAsked: true });
    },
  });
  replace(root, h("h1", null, "Decisions"), form.form, view.elements);
  search(searchOf(query), { isAsked: false });

  const stream = events({
    onOpen: () => (view.state.isOpen = true),
    onClosed: () => (view.state.isOpen = false),
    onDecision: (event) => store.add(event),
  });
  const timer = setInterval(() => view.draw(false), DRAW_MS);
  return () => {
    clearInterval(timer);
    stream.close();
  };
}
