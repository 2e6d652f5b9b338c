// Every letter explained: a tooltip where it stands, and a list for fingers and keys.

import { make } from "explorer/dom";

/**
 * A text cut at the letters that a scene explains; each part has its meaning, or "".
 * @param {string} text
 * @param {Record<string, string>} letters
 * @returns {[part: string, help: string][]}
 */
export function split(text, letters) {
  const names = Object.keys(letters).sort((a, b) => b.length - a.length);
  if (!names.length) return text ? [[text, ""]] : [];
  const escaped = names.map((name) => name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const found = new RegExp(`(?<![\\p{L}\\p{N}_'’])(?:${escaped.join("|")})(?![\\p{L}\\p{N}_'’])`, "gu");
  /** @type {[string, string][]} */
  const parts = [];
  let at = 0;
  for (const { 0: letter, index } of text.matchAll(found)) {
    if (index > at) parts.push([text.slice(at, index), ""]);
    parts.push([letter, letters[letter]]);
    at = index + letter.length;
  }
  if (at < text.length) parts.push([text.slice(at), ""]);
  return parts;
}

/** @param {Element} parent @param {string} text @param {Record<string, string>} letters */
export function explain(parent, text, letters) {
  parent.replaceChildren();
  for (const [part, help] of split(text, letters)) {
    if (help) make("abbr", { textContent: part, title: `${part}: ${help}` }, parent);
    else parent.append(part);
  }
}

/**
 * What the letters of a text mean, as one line: for the labels of axes, which are drawn.
 * @param {string} text
 * @param {Record<string, string>} letters
 */
export function meaning(text, letters) {
  const found = split(text, letters).filter(([, help]) => help);
  return [...new Map(found)].map(([letter, help]) => `${letter}: ${help}`).join("; ");
}

/** @param {Element} list @param {Record<string, string>} letters */
export function fillLetters(list, letters) {
  list.replaceChildren();
  for (const [letter, help] of Object.entries(letters)) {
    make("dt", { textContent: letter }, list);
    make("dd", { textContent: help }, list);
  }
}
