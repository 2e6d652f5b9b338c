// Files of a run: pictures, numbers, code, the trajectory, and the page that plays by itself.

export const EXPORTS = {
  PNG: "the pictures as they are now, one file each",
  SVG: "the pictures, scalable",
  CSV: "all numbers that belong to time, a line per frame",
  JSON: "the settings and all numbers",
  Python: "the code that makes this run",
  trajectory: "the run, for shallowflow: Trajectory.load",
  HTML: "this page with this run, without a server",
};

export function save(name, content, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// Columns: time, and every array with one number per frame.
export function csv(run) {
  const columns = [["time", run.times]];
  for (const view of run.views) for (const layer of view.layers) if (layer.kind === "history") columns.push([`${view.name}: ${layer.label || "value"}`, layer.arrays.y.values]);
  const head = columns.map(([name]) => `"${name.replaceAll('"', '""')}"`).join(",");
  const lines = Array.from(run.times, (_, k) => columns.map(([, values]) => values[k]).join(","));
  return [head, ...lines].join("\n") + "\n";
}

export function json(run) {
  const numbers = (array) => ({ shape: array.shape, values: Array.from(array.values) });
  const views = run.views.map((view) => ({
    name: view.name,
    title: view.title,
    layers: view.layers.map((layer) => ({ kind: layer.kind, label: layer.label, arrays: Object.fromEntries(Object.entries(layer.arrays).map(([role, array]) => [role, numbers(array)])) })),
  }));
  const said = { schema: "shallowflow-explorer-1", scene: run.scene, state: run.state, times: Array.from(run.times), events: run.events, sentences: run.sentences, views };
  return JSON.stringify(said, null, 1);
}

async function fetched(what, run) {
  const answer = await fetch(`/export/${what}`, { method: "POST", body: JSON.stringify({ n: 1, scene: run.scene, state: run.state }) });
  if (!answer.ok) throw new Error((await answer.json()).error);
  return answer.blob();
}

export async function exported(kind, run, pictures) {
  const name = `shallowflow-${run.scene}`;
  if (kind === "PNG") for (const one of pictures) one.canvas.toBlob((blob) => save(`${name}-${one.view.name}.png`, blob));
  if (kind === "SVG") for (const one of pictures) save(`${name}-${one.view.name}.svg`, one.svg(), "image/svg+xml");
  if (kind === "CSV") save(`${name}.csv`, csv(run), "text/csv");
  if (kind === "JSON") save(`${name}.json`, json(run), "application/json");
  if (kind === "Python") save(`${name.replaceAll("-", "_")}.py`, run.code, "text/x-python");
  if (kind === "trajectory") save(`${name}.trajectory`, await fetched("trajectory", run));
  if (kind === "HTML") save(`${name}.html`, await fetched("standalone", run));
}
