import type { Command } from 'commander';
import type { Context } from '../context.ts';
import type { DoctorArguments } from '../doctor/examine-media.ts';

/** `mds doctor`: checks stored bytes against their SHA-256. */
export function registerDoctor(program: Command, context: () => Context): void {
  program
    .command('doctor')
    .description('check every stored byte against its SHA-256 (needs a token)')
    .argument('[id...]', 'check only these media (default: all)')
    .option('--repair', 'make damaged and missing renditions again')
    .addHelpText('after', HELP)
    .action(async (ids: string[], options: DoctorArguments) => {
      const { examineMedia } = await import('../doctor/examine-media.ts');
      return examineMedia(context(), ids, options);
    });
}

const HELP = `
Needs a token of scope operate. Prints each damaged or missing file: id, file,
health, and what is done about it.

A damaged original cannot be made again: upload the same file once more, and it
replaces the damaged one. --repair drops a rendition that no preset makes any
more; to keep it, put its preset back first.

Exit code 1 if something is damaged and is not being repaired.
`;
