// Tables sort by the column whose head is clicked: numbers by size, all else by the alphabet; again, the other way.
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  const value = (row, place) => row.cells[place].textContent.trim();
  const number = (text) => (/^[<+−-]?[\d,.]+/.test(text) ? parseFloat(text.replace(/[<,]/g, "").replace("−", "-")) : NaN);
  [...table.tHead.rows[0].cells].forEach((head, place) => {
    const sort = () => {
      const down = head.ariaSort === "ascending" || (head.ariaSort === null && head.classList.contains("figure"));
      const rows = [...body.rows].map((row) => [row, value(row, place), number(value(row, place))]);
      const numeric = rows.some(([, , found]) => !isNaN(found));
      rows.sort(([, a, x], [, b, y]) => {
        if (!numeric) return down ? b.localeCompare(a) : a.localeCompare(b);
        if (isNaN(x) || isNaN(y)) return isNaN(x) - isNaN(y);
        return down ? y - x : x - y;
      });
      for (const other of table.tHead.rows[0].cells) other.ariaSort = null;
      head.ariaSort = down ? "descending" : "ascending";
      for (const [row] of rows) {
        row.classList.remove("break");
        body.append(row);
      }
    };
    head.tabIndex = 0;
    head.title = "sort";
    head.addEventListener("click", sort);
    head.addEventListener("keydown", (event) => event.key === "Enter" && sort());
  });
}
