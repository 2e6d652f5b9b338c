// Elements of the page: found by their id and kind, or made.

/**
 * @template {HTMLElement} T
 * @param {string} id
 * @param {new () => T} kind
 * @returns {T}
 */
export function element(id, kind) {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`the page has no ${kind.name} #${id}`);
  return found;
}

/**
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, unknown>} [attributes]
 * @param {Node | null} [parent]
 * @returns {HTMLElementTagNameMap[K]}
 */
export function make(tag, attributes = {}, parent = null) {
  const made = Object.assign(document.createElement(tag), attributes);
  parent?.appendChild(made);
  return made;
}

/** @param {string} id */
export const button = (id) => element(id, HTMLButtonElement);

/** @param {HTMLSelectElement} select @param {string[]} words @param {string} now */
export function options(select, words, now) {
  select.replaceChildren();
  for (const word of words) make("option", { value: word, textContent: word, selected: word === now }, select);
}
