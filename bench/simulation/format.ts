/** Bytes in binary units, with at most three digits. */
export function formatBytes(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let [value, unit] = [bytes, 0];
  while (value >= 999.5 && unit < units.length - 1) [value, unit] = [value / 1024, unit + 1];
  return `${value >= 99.5 || unit === 0 ? value.toFixed(0) : value.toPrecision(2)} ${units[unit]}`;
}

/** A share of 1 as a percentage. */
export function formatShare(share: number): string {
  const percent = share * 100;
  return `${percent >= 9.95 ? percent.toFixed(0) : Number(percent.toPrecision(2))} %`;
}

/** A ratio with three decimals. */
export function formatRatio(ratio: number): string {
  return ratio.toFixed(3);
}
