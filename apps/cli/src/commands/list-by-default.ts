import type { Command } from 'commander';
import { similarWords } from '../near.ts';

/** For a group of commands whose default is `list`: reports an unknown command instead of passing it to `list` as an argument. */
export function listByDefault(group: Command): void {
  group.hook('preSubcommand', ({ args: [first] }) => {
    if (first === undefined || first.startsWith('-')) return;
    const names = group.commands.map((command) => command.name());
    if (names.includes(first)) return;
    const [meant] = similarWords(first, names);
    const all =
      names.length === 1 ? `The only command of ${group.name()} is ${names[0]}.` : `There are ${names.join(', ')}.`;
    const advice = meant === undefined ? all : `(Did you mean ${meant}?)`;
    group.error(`unknown command '${first}'\n${advice}`, { code: 'commander.unknownCommand' });
  });
}
