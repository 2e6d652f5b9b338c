// The shapes of what the server sends (explorer/scene.py) and of what the page keeps. For the type checker only.

export type Pair = [number, number];
export type Tone = string;
/** Settings by name: numbers, words, and points by the name of their handles. */
export type Values = Record<string, number | string | Pair[]>;
export type Settings = { scene: string } & Values;

export interface Numbers { shape: number[]; values: Float64Array | Float32Array }

export interface Layer {
  kind: "curve" | "dots" | "history" | "neurons" | "rays" | "levels" | "marks" | "cells";
  label: string;
  tone: Tone;
  arrays: Record<string, Numbers>;
  moving: boolean;
  names: string[];
}

export interface View {
  name: string;
  title: string;
  layers: Layer[];
  x_label: string;
  y_label: string;
  x_scale: "linear" | "log";
  y_scale: "linear" | "log";
  x_limits: Pair | null;
  y_limits: Pair | null;
  square: boolean;
  timed: boolean;
}

export type Moment = [time: number, words: string];

export interface Run {
  n: number;
  scene: string;
  state: Values;
  times: Float64Array;
  views: View[];
  events: Moment[];
  sentences: string[];
  code: string;
  keeps: boolean;
  stage: "whole" | "preview" | "part";
  end: number;
  places: Record<string, Pair[]>;
  buffer: ArrayBuffer;
}

export interface Control {
  name: string;
  label: string;
  help: string;
  value: number | string;
  low: number;
  high: number;
  log: boolean;
  whole: boolean;
  bend: number;
  choices: string[];
}

export interface Handles {
  name: string;
  view: string;
  label: string;
  points: Pair[];
  x_limits: Pair;
  y_limits: Pair;
  least: number;
  most: number;
  vertical: boolean;
  horizontal: boolean;
  stroke: "" | "points" | "steps";
  drawn_by: string[];
  counted_by: string;
}

export interface Action {
  label: string;
  help: string;
  now: string;
  sets: Record<string, number>;
  adds: Record<string, number>;
  then: "end" | "moment";
}

export interface Scene {
  name: string;
  title: string;
  story: string;
  controls: Control[];
  handles: Handles[];
  actions: Action[];
  letters: Record<string, string>;
}

/** How a run is looked at: kept in the address, not undone. */
export interface Look { place?: number; clock?: string; speed?: string; theme?: string }

export interface Stroke { width?: number; dash?: number[]; alpha?: number }
export interface Dots { alpha?: number; hollow?: boolean }
export interface Words { align?: "left" | "center" | "right"; tone?: Tone; size?: number; turn?: boolean }

export interface Pen {
  width: number;
  height: number;
  unit: number;
  line(points: Iterable<Pair>, tone: Tone, how?: Stroke): void;
  dots(points: Iterable<Pair>, radius: number, tone: Tone, how?: Dots): void;
  box(x: number, y: number, width: number, height: number, tone: Tone, alpha: number): void;
  text(words: string, x: number, y: number, how?: Words): void;
  clip(x: number, y: number, width: number, height: number, inside: () => void): void;
}

/** Handles as a picture draws them: where they are, and which one is chosen. */
export interface Placed { name: string; points: Pair[]; chosen: number; horizontal: boolean }

export interface Near { distance: number; words: string; neuron: number }
