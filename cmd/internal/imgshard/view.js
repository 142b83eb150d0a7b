"use strict";
const figures = [...document.querySelectorAll("figure")].map((e) => [e, e.dataset.search.toLowerCase()]);
const sections = [...document.querySelectorAll("section")];
const all = document.getElementById("shown").textContent;
document.getElementById("search").addEventListener("input", (event) => {
  const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const [e, text] of figures) {
    e.hidden = !words.every((word) => text.includes(word));
    shown += !e.hidden;
  }
  for (const s of sections) s.hidden = !s.querySelector("figure:not([hidden])");
  document.getElementById("shown").textContent = words.length ? `${shown} found` : all;
});
