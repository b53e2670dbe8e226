/** Endings that programs give to files which they are not done with: browsers, copiers, download and file transfer programs. */
const TEMPORARY = /(?:\.(?:part|partial|filepart|tmp|temp|crdownload|download|swp)|~)$/i;

/** Whether a file goes by a name that it will not keep: it is waited for under the name that it gets in the end. */
export function isTemporaryName(name: string): boolean {
  return name.startsWith('.') || name.startsWith('~') || TEMPORARY.test(name);
}
