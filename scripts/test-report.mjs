// A reporter of vitest: writes a run's counts, and the time that each file took, to the file that MDS_TEST_REPORT names.
import { writeFileSync } from 'node:fs';
import { relative, sep } from 'node:path';
import { ROOT } from './workspace.mjs';

export default class TestReport {
  onTestRunEnd(modules) {
    const counts = { passed: 0, failed: 0, skipped: 0 };
    const seconds = {};
    for (const module of modules) {
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        // A test that a cut-off run never reached is pending.
        counts[state === 'pending' ? 'skipped' : state] += 1;
      }
      const { environmentSetupDuration, prepareDuration, collectDuration, setupDuration, duration } =
        module.diagnostic();
      const ms = environmentSetupDuration + prepareDuration + collectDuration + setupDuration + duration;
      seconds[relative(ROOT, module.moduleId).replaceAll(sep, '/')] = Math.round(ms / 100) / 10;
    }
    writeFileSync(process.env.MDS_TEST_REPORT, JSON.stringify({ counts, seconds }));
  }
}
