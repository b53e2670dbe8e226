import { expect, it } from 'vitest';
import { createWriteGate } from './write-gate.ts';

it('waits for those who are writing, and lets nobody else in meanwhile', async () => {
  const gate = createWriteGate();
  const leaves = [gate.enter(() => undefined), gate.enter(() => undefined)];
  let closed = false;
  const closing = gate.close().then(() => {
    closed = true;
  });
  expect(() => gate.enter(() => undefined)).toThrow(expect.objectContaining({ code: 'unavailable' }));
  leaves[0]?.();
  // Counted out once, however often it is said.
  leaves[0]?.();
  await new Promise(setImmediate);
  expect(closed).toBe(false);
  leaves[1]?.();
  await closing;
  gate.open();
  gate.enter(() => undefined)();
});

it('says when to ask again', () => {
  const gate = createWriteGate();
  void gate.close();
  expect(() => gate.enter(() => undefined)).toThrow(
    expect.objectContaining({ status: 503, headers: { 'Retry-After': '30' } }),
  );
});

it('says that it is for good once it is, until it is opened after all', async () => {
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

it('cuts who takes too long, and then need not wait', async () => {
  const gate = createWriteGate();
  const leave = gate.enter(() => leave());
  await gate.close(1);
  expect(gate.isClosed).toBe(true);
});
