"use strict";
for (const table of document.querySelectorAll("table")) {
  for (const button of table.querySelectorAll("thead button")) {
    button.addEventListener("click", () => sort(table, button.closest("th")));
  }
}
function sort(table, head) {
  const place = head.cellIndex;
  const isNumber = head.classList.contains("number");
  // numbers begin with the highest, words with the first
  const before = head.getAttribute("aria-sort");
  const down = before ? before === "ascending" : isNumber;
  const body = table.tBodies[0];
  const rows = Array.from(body.rows, (row) => {
    const cell = row.cells[place];
    if (!isNumber) return { row, key: cell.textContent };
    return { row, key: cell.dataset.sort === undefined ? null : Number(cell.dataset.sort) };
  });
  const words = new Intl.Collator(undefined, { numeric: true });
  rows.sort((a, b) => {
    if (a.key === null || b.key === null) return (a.key === null) - (b.key === null);
    const order = isNumber ? a.key - b.key : words.compare(a.key, b.key);
    return down ? -order : order;
  });
  body.append(...rows.map(({ row }) => row));
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
}
