import { expect, it } from 'vitest';
import { createWriteGate } from './write-gate.ts';

it('waits for running writes, and admits no new ones meanwhile', async () => {
  const gate = createWriteGate();
  const leaves = [gate.enter(() => undefined), gate.enter(() => undefined)];
  let closed = false;
  const closing = gate.close().then(() => {
    closed = true;
  });
  expect(() => gate.enter(() => undefined)).toThrow(expect.objectContaining({ code: 'unavailable' }));
  leaves[0]?.();
  // A repeated call counts only once.
  leaves[0]?.();
  await new Promise(setImmediate);
  expect(closed).toBe(false);
  leaves[1]?.();
  await closing;
  gate.open();
  gate.enter(() => undefined)();
});

it('rejects writes with Retry-After', () => {
  const gate = createWriteGate();
  void gate.close();
  expect(() => gate.enter(() => undefined)).toThrow(
    expect.objectContaining({ status: 503, headers: { 'Retry-After': '30' } }),
  );
});

it('reports a moved deployment once it is closed for good, until it is reopened', async () => {
  const gate = createWriteGate();
  await gate.close();
  gate.closeForGood();
  const moved = { status: 503, code: 'deployment_moved', headers: { 'Retry-After': '30' } };
  expect(() => gate.enter(() => undefined)).toThrow(expect.objectContaining(moved));
  gate.open();
  gate.enter(() => undefined)();
  void gate.close();
  expect(() => gate.enter(() => undefined)).toThrow(expect.objectContaining({ code: 'unavailable' }));
});

it('aborts writes that take too long, so that it can close', async () => {
  const gate = createWriteGate();
  const leave = gate.enter(() => leave());
  await gate.close(1);
  expect(gate.isClosed).toBe(true);
});
