package affine

import "github.com/imgfeed/imgfeed/internal/image/imagefile"

// Turn writes src, turned counterclockwise by a number of quarter turns from 1 to 3, to dst, as Image.transpose(ROTATE_90) and so
// on do. dst has the size of the result: width and height swapped for an odd number.
func Turn(dst, src *imagefile.RGB, quarters int) {
	w, h := src.Width, src.Height
	// The source's pixel for the result's first one, and the steps from one pixel and from one row to the next.
	var from, right, down int
	switch quarters {
	case 1:
		from, right, down = w-1, w, -1
	case 2:
		from, right, down = w*h-1, -1, -w
	case 3:
		from, right, down = w*(h-1), -w, 1
	}
	for y := range dst.Height {
		at := 3 * (from + y*down)
		for to := row(dst, y); len(to) >= 3; to = to[3:] {
			pixel := src.Pix[at:][:3:3]
			to[0], to[1], to[2] = pixel[0], pixel[1], pixel[2]
			at += 3 * right
		}
	}
}
