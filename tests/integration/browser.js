// Put into a page of `kubectl-skyjob report` by browser.sh: which parts of its pictures are cut off, covered or missing.
const bad = [];
const box = (e) => e.getBoundingClientRect();
const isInside = (a, b) => a.left >= b.left - 1 && a.right <= b.right + 1 && a.top >= b.top - 1 && a.bottom <= b.bottom + 1;
const isOver = (a, b) =>
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4;

if (document.documentElement.scrollWidth > innerWidth) bad.push(`the page is ${document.documentElement.scrollWidth} wide`);
for (const svg of document.querySelectorAll("svg")) {
    const name = svg.getAttribute("aria-label");
    const texts = [...svg.querySelectorAll("text")];

    if (box(svg).width < 100 || box(svg).height < 50) bad.push(`${name} is not there`);
    if (!svg.querySelector("path, rect, polyline, circle")) bad.push(`${name} is empty`);
    texts.forEach((text, i) => {
        if (!isInside(box(text), box(svg))) bad.push(`${name}: "${text.textContent}" is cut off`);
        for (const other of texts.slice(i + 1))
            if (isOver(box(text), box(other))) bad.push(`${name}: "${text.textContent}" is over "${other.textContent}"`);
    });
}
document.getElementById("seen").textContent = [...bad, `${document.querySelectorAll("svg").length} pictures`].join("\n");
