import { execFileSync } from 'node:child_process';
import { expect, it } from 'vitest';
import { printableLine } from './printable.ts';
import { shellCommand } from './shell-quote.ts';

const PLAIN = [
  '-i',
  'in.mp4',
  '-vf',
  "scale=w=640:h=-2,setpts='PTS-STARTPTS';[a]",
  '',
  "it's",
  '$(id) `id` $HOME',
  '~',
  '=x',
];
const ODD = ['a\\b', '*?[x]{a,b}', '# no comment', 'é写👩‍👩‍👧', '!history', 'a  b', '--opt=va lue', '&& rm -rf', '"'];
const INVISIBLE = ['line\nbreak\tand tab', '\x1b[2J\x07', 'c\u202egpj.exe', "both ' and \\ and \x019"];

/** Has a shell split a command line into arguments. */
function split(shell: string, commandLine: string): string[] {
  const script = `set -- ${commandLine}; for it; do printf '%s\\0' "$it"; done`;
  const output = execFileSync(shell, ['-c', script], {
    encoding: 'utf8',
    env: { LC_ALL: 'C.UTF-8', HOME: '/nowhere' },
  });
  return output.split('\0').slice(0, -1);
}

it.each([
  ['sh', [...PLAIN, ...ODD]],
  ['bash', [...PLAIN, ...ODD, ...INVISIBLE]],
])('a command pasted into %s has its original arguments', (shell, argv) => {
  expect(split(shell, shellCommand(argv))).toEqual(argv);
});

it('is one printable line without unnecessary quotes', () => {
  const line = shellCommand([...PLAIN, ...INVISIBLE]);
  expect(printableLine(line)).toBe(line);
  expect(shellCommand(['ffmpeg', '-i', 'source.mp4', '-b:v', '3000k', '-map', '0:v'])).toBe(
    'ffmpeg -i source.mp4 -b:v 3000k -map 0:v',
  );
});
