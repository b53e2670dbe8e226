/** Endings that browsers, copiers and transfer programs give to unfinished files. */
const TEMPORARY = /(?:\.(?:part|partial|filepart|tmp|temp|crdownload|download|swp)|~)$/i;

/** Whether a file name is temporary. Such a file is sent only after it is renamed. */
export function isTemporaryName(name: string): boolean {
  return name.startsWith('.') || name.startsWith('~') || TEMPORARY.test(name);
}
