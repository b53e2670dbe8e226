import { toText } from '../table.ts';
import { writeDocument } from './document.ts';
import { InvalidOptionError, type Request, readOptions, USAGE } from './options.ts';
import { type Finding, type Scenario, study, tableOf, VARIABLES, type Variable } from './study.ts';

/** Returns 0: done; 2: wrong usage. */
async function main(argv: readonly string[]): Promise<number> {
  let request: Request;
  try {
    request = readOptions(argv);
  } catch (error) {
    if (!(error instanceof InvalidOptionError)) throw error;
    console.error(`${error.message}\n\n${USAGE}`);
    return 2;
  }
  if (request.help) console.log(USAGE);
  else if (request.docs) await writeDocument(progress);
  else {
    const findings = study(request.scenarios, progress);
    const title = `${findings[0]?.scenario.requests.toLocaleString('en')} requests; "origin": requests to the origin`;
    console.log(
      request.json ? JSON.stringify(findings, null, 2) : toText(tableOf(title, findings, changing(findings))),
    );
  }
  return 0;
}

function progress(message: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\u001b[K${message}\r`);
}

/** The columns of the table: the options that vary, and the cache size. */
function changing(findings: readonly Finding[]): Variable[] {
  const { cacheShare, ...others } = VARIABLES;
  const differs = (name: string) => new Set(findings.map(({ scenario }) => scenario[name as keyof Scenario])).size > 1;
  return [...Object.entries(others).flatMap(([name, variable]) => (differs(name) ? [variable] : [])), cacheShare];
}

process.exitCode = await main(process.argv.slice(2));
