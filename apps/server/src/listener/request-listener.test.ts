import { expect, it, onTestFinished } from 'vitest';
import { startApp } from '../../test/support/app-fixture.ts';

it('a request not answered from memory is looked up once and keeps its id', async () => {
  const lookedUp: (string | undefined)[] = [];
  const app = await startApp({
    delivery: {
      answerFromMemory(_request, _sink, also) {
        lookedUp.push(also[1]);
        return null;
      },
      async handle(_request, response, also) {
        response.writeHead(200, [...also, 'Content-Length', '0']).end();
      },
    },
  });
  onTestFinished(() => app.stop());
  for (const turn of [1, 2]) {
    const answer = await fetch(`${app.url}/media/any/thumb.webp`);
    expect([answer.status, lookedUp.length]).toEqual([200, turn]);
    expect(answer.headers.get('x-request-id')).toBe(lookedUp.at(-1));
  }
});
