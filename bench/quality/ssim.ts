/**
 * Structural similarity of two planes: Z. Wang, A. C. Bovik, H. R. Sheikh, E. P. Simoncelli, "Image quality
 * assessment: from error visibility to structural similarity", IEEE Transactions on Image Processing 13(4), 2004. With
 * that paper's own choices: an 11 x 11 circular Gaussian window of deviation 1.5, K1 = 0.01, K2 = 0.03, L = 255, the mean
 * over all windows that lie within the picture.
 */

const windowSize = 11;
const deviation = 1.5;
const c1 = (0.01 * 255) ** 2;
const c2 = (0.03 * 255) ** 2;

/** One component of each pixel, 0 to 255, row by row. */
export interface Plane {
  readonly width: number;
  readonly height: number;
  readonly data: Float32Array;
}

const kernel = gaussian();

/**
 * The mean SSIM of a plane and its reference: 1 if they are equal, lower the less they look alike.
 * @throws RangeError if the sizes differ or are smaller than the window
 */
export function ssim(picture: Plane, reference: Plane): number {
  const { width, height } = reference;
  if (picture.width !== width || picture.height !== height) throw new RangeError('The pictures differ in size.');
  if (Math.min(width, height) < windowSize) throw new RangeError(`SSIM needs ${windowSize} pixels each way.`);
  const x = Float64Array.from(picture.data);
  const y = Float64Array.from(reference.data);
  const meanX = filter(x, width, height);
  const meanY = filter(y, width, height);
  const squareX = filter(product(x, x), width, height);
  const squareY = filter(product(y, y), width, height);
  const cross = filter(product(x, y), width, height);
  let sum = 0;
  for (let i = 0; i < meanX.length; i++) {
    const mx = meanX[i] as number;
    const my = meanY[i] as number;
    const varianceX = (squareX[i] as number) - mx * mx;
    const varianceY = (squareY[i] as number) - my * my;
    const covariance = (cross[i] as number) - mx * my;
    sum += ((2 * mx * my + c1) * (2 * covariance + c2)) / ((mx * mx + my * my + c1) * (varianceX + varianceY + c2));
  }
  return sum / meanX.length;
}

function gaussian(): Float64Array {
  const half = (windowSize - 1) / 2;
  const weights = Float64Array.from({ length: windowSize }, (_, i) =>
    Math.exp(-((i - half) ** 2) / (2 * deviation ** 2)),
  );
  const sum = weights.reduce((total, weight) => total + weight, 0);
  return weights.map((weight) => weight / sum);
}

function product(a: Float64Array, b: Float64Array): Float64Array {
  const result = new Float64Array(a.length);
  for (let i = 0; i < result.length; i++) result[i] = (a[i] as number) * (b[i] as number);
  return result;
}

/** Applies the window, first along rows and then along columns, at every place where it lies wholly within the picture. */
function filter(data: Float64Array, width: number, height: number): Float64Array {
  const innerWidth = width - windowSize + 1;
  const innerHeight = height - windowSize + 1;
  const rows = new Float64Array(innerWidth * height);
  for (let y = 0; y < height; y++) {
    for (let k = 0; k < windowSize; k++) {
      const weight = kernel[k] as number;
      const from = y * width + k;
      const to = y * innerWidth;
      for (let x = 0; x < innerWidth; x++) {
        rows[to + x] = (rows[to + x] as number) + weight * (data[from + x] as number);
      }
    }
  }
  const result = new Float64Array(innerWidth * innerHeight);
  for (let y = 0; y < innerHeight; y++) {
    for (let k = 0; k < windowSize; k++) {
      const weight = kernel[k] as number;
      const from = (y + k) * innerWidth;
      const to = y * innerWidth;
      for (let x = 0; x < innerWidth; x++)
        result[to + x] = (result[to + x] as number) + weight * (rows[from + x] as number);
    }
  }
  return result;
}
