"use strict";
// Every text of the data becomes a text node: nothing of it is ever read as markup.
const data = JSON.parse(document.getElementById("data").textContent);
const items = data.items;
const element = (id) => document.getElementById(id);
const keyOf = (item) => item.key;
let place = 0;
let verdicts = {};
let isNamed = false;

function storageKey(name) {
  return "retrokit-judging " + data.sample + " " + name;
}

function annotator() {
  return element("annotator").value.trim();
}

// The browser may forbid a local file its storage; verdicts then last as long as the page is open.
function load() {
  try {
    verdicts = JSON.parse(localStorage.getItem(storageKey(annotator())) || "{}");
  } catch (error) {
    verdicts = {};
  }
  isNamed = annotator() !== "";
}

function save() {
  try {
    localStorage.setItem(storageKey(annotator()), JSON.stringify(verdicts));
    localStorage.setItem("retrokit-judging annotator", annotator());
  } catch (error) {
    say("This browser keeps nothing: export before you close the page.");
  }
}

// They go to the first name that is typed, and to no later one.
function forgetWithoutName() {
  try {
    localStorage.removeItem(storageKey(""));
  } catch (error) {
    return;
  }
}

function say(text) {
  element("message").textContent = text;
}

// In a long text the longest stretch that both have is in view, such as the key sentence that was taken from a passage.
function showPieces(target, pieces) {
  let longest = null;
  const nodes = pieces.map(([differs, text]) => {
    const node = document.createElement(differs ? "mark" : "span");
    node.textContent = text;
    if (!differs && (longest === null || text.length > longest.textContent.length)) {
      longest = node;
    }
    return node;
  });
  target.replaceChildren(...nodes);
  target.scrollTop = 0;
  if (longest !== null) {
    const lineAbove = 24;
    target.scrollTop = longest.getBoundingClientRect().top - target.getBoundingClientRect().top - lineAbove;
  }
}

function show() {
  const item = items[place];
  const verdict = verdicts[keyOf(item)];
  element("kind").textContent = item.kind;
  element("query").textContent = item.query;
  element("requirement").textContent = item.requirement;
  showPieces(element("passage"), item.passage);
  element("variant").parentElement.hidden = element("legend").hidden = item.variant.length === 0;
  showPieces(element("variant"), item.variant);
  element("yes").setAttribute("aria-pressed", String(verdict === true));
  element("no").setAttribute("aria-pressed", String(verdict === false));
  const judged = items.filter((other) => keyOf(other) in verdicts).length;
  element("place").textContent = place + 1 + " of " + items.length;
  element("judged").textContent = judged + " judged";
  element("progress").value = judged / items.length;
}

function judge(qualified) {
  verdicts[keyOf(items[place])] = qualified;
  say("");
  save();
  if (place + 1 < items.length) {
    place += 1;
  } else {
    say(items.every((item) => keyOf(item) in verdicts) ? "All are judged: export with e." : "The last one; o goes to those not judged.");
  }
  show();
}

function takeBack() {
  delete verdicts[keyOf(items[place])];
  save();
  show();
}

function move(step) {
  place = Math.min(items.length - 1, Math.max(0, place + step));
  say("");
  show();
}

function toOpen() {
  const order = items.map((_, index) => (place + 1 + index) % items.length);
  const found = order.find((index) => !(keyOf(items[index]) in verdicts));
  if (found === undefined) {
    say("All are judged: export with e.");
  } else {
    place = found;
    say("");
    show();
  }
}

function exportVerdicts() {
  if (!annotator()) {
    say("Enter your name first: it tells annotators apart.");
    element("annotator").focus();
    return;
  }
  const rows = items
    .filter((item) => keyOf(item) in verdicts)
    .map((item) =>
      JSON.stringify({
        ...item.row,
        [data.verdict]: verdicts[keyOf(item)],
        annotator: annotator(),
        sample: data.sample,
      }),
    );
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([rows.join("\n") + (rows.length ? "\n" : "")], { type: "application/jsonl" }));
  link.download = "verdicts-" + annotator().replace(/[^\p{L}\p{N}_-]+/gu, "_") + ".jsonl";
  link.click();
  say(rows.length + " of " + items.length + " verdicts exported.");
}

const actions = {
  y: () => judge(true),
  n: () => judge(false),
  u: takeBack,
  ArrowLeft: () => move(-1),
  ArrowRight: () => move(1),
  o: toOpen,
  e: exportVerdicts,
};
const buttons = { yes: "y", no: "n", clear: "u", previous: "ArrowLeft", next: "ArrowRight", open: "o", export: "e" };

for (const [id, key] of Object.entries(buttons)) {
  element(id).addEventListener("click", (event) => {
    event.currentTarget.blur();
    actions[key]();
  });
}

document.addEventListener("keydown", (event) => {
  if (event.target === element("annotator")) {
    if (event.key === "Enter" || event.key === "Escape") {
      event.target.blur();
    }
    return;
  }
  const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (action && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    action();
  }
});

element("annotator").addEventListener("change", () => {
  const withoutName = isNamed ? {} : verdicts;
  load();
  Object.assign(verdicts, withoutName);
  save();
  if (isNamed) {
    forgetWithoutName();
  }
  say("");
  show();
});

try {
  element("annotator").value = localStorage.getItem("retrokit-judging annotator") || "";
} catch (error) {
  element("annotator").value = "";
}
load();
show();
