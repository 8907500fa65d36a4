// Tooltips over the plots. The page is complete without them.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const tip = document.body.appendChild(document.createElement("div"));
  tip.id = "tip";

  const element = (name, css, content) => {
    const made = document.createElement(name);
    if (css) made.className = css;
    if (content !== undefined) made.textContent = content;
    return made;
  };

  const line = (name, value, css) => {
    const row = element("div");
    if (css) row.append(element("i", css));
    row.append(name, element("span", "", value));
    return row;
  };

  const colour = (id) => `chip f${data.order.indexOf(id) % 8}`;

  const lines = (plot, at) => {
    const sample = (half, series) => series[Math.floor(at / half.step_s)];
    if (plot.dataset.kind === "use") {
      return Object.values(data.halves)
        .filter((half) => sample(half, half.use) !== undefined)
        .map((half) => line(half.title, `${sample(half, half.use)} %`));
    }
    const half = data.halves[plot.dataset.half];
    return data.order
      .filter((id) => plot.dataset.id === undefined || plot.dataset.id === id)
      .map((id) => [id, sample(half, half.flows[id] || [])])
      .filter(([, rate]) => rate > 0.05)
      .map(([id, rate]) => line(id, `${rate} Mbit/s`, colour(id)));
  };

  const place = (event) => {
    const { width, height } = tip.getBoundingClientRect();
    const left = event.clientX + 14 + width > innerWidth ? event.clientX - 14 - width : event.clientX + 14;
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${Math.max(4, Math.min(event.clientY + 14, innerHeight - height - 4))}px`;
  };

  for (const plot of document.querySelectorAll(".plot[data-kind]")) {
    const cursor = plot.appendChild(element("div", "cursor"));
    plot.addEventListener("pointermove", (event) => {
      const box = plot.getBoundingClientRect();
      const share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
      const at = share * data.span_s;
      tip.replaceChildren(element("b", "", `${at.toFixed(1)} s`), ...lines(plot, at));
      tip.style.display = cursor.style.display = "block";
      cursor.style.left = `${100 * share}%`;
      place(event);
    });
    plot.addEventListener("pointerleave", () => {
      tip.style.display = cursor.style.display = "none";
    });
  }
})();
