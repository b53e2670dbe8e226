import type { Command } from 'commander';
import type { Context } from '../context.ts';
import type { DoctorArguments } from '../doctor/examine-media.ts';

/** `mds doctor`: is every stored byte what it was? */
export function registerDoctor(program: Command, context: () => Context): void {
  program
    .command('doctor')
    .description('check every stored byte against its SHA-256 (needs a token)')
    .argument('[id...]', 'only these media; default all')
    .option('--repair', 'make damaged and missing renditions again')
    .addHelpText('after', HELP)
    .action(async (ids: string[], options: DoctorArguments) => {
      const { examineMedia } = await import('../doctor/examine-media.ts');
      return examineMedia(context(), ids, options);
    });
}

const HELP = `
Needs a token of scope operate. Prints what is not sound: id, what, health, what
is done about it. A damaged original cannot be made again: upload the same file
once more, and it takes its place. Nor can a rendition that no preset makes any
more: put its preset back first, or --repair gives it up.

Exit code 1 if something was not sound and is not being repaired.
`;
