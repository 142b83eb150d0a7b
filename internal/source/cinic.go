package source

import (
	"image/png"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// CINIC-10 (Darlow et al., "CINIC-10 is not ImageNet or CIFAR-10", 2018; https://github.com/BayesWatch/cinic-10) is 270,000 images of 32×32 in
// three splits of the same size, train, valid and test, each a folder of class folders with PNGs:
//
//	CINIC-10/train/airplane/cifar10-train-29.png
//	CINIC-10/valid/airplane/n02690373_10065.png
//
// It is read as any class folders are. What is known of it is that its images are small, so that there is nothing to resize, and that its test
// images are sorted into class folders too, so that they are a split as well.
var cifarClassNames = []string{"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"}

// isSmallFolder says that class folders are those of CINIC-10, or CIFAR-10 as PNGs: the ten classes, and the first image of each is a PNG of 32×32.
func isSmallFolder(root string, folders []string) bool {
	return slices.Equal(folders, cifarClassNames) &&
		!slices.ContainsFunc(folders, func(class string) bool { return !firstIsSmallPNG(filepath.Join(root, class)) })
}

// isSmallSplit is isSmallFolder of a folder that has not been looked at.
func isSmallSplit(root string) bool {
	seen, err := look(root)
	return err == nil && isSmallFolder(root, seen.folders)
}

// firstIsSmallPNG says that the first file that a folder lists, in no promised order, is a PNG of 32×32: enough of a look at 9,000 of them.
func firstIsSmallPNG(folder string) bool {
	d, err := os.Open(folder)
	if err != nil {
		return false
	}
	defer d.Close()
	for {
		entries, err := d.ReadDir(1)
		if err != nil { // io.EOF: there is no file
			return false
		}
		name := filepath.Join(folder, entries[0].Name())
		if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() || junk(entries[0].Name()) {
			continue
		}
		f, err := os.Open(name)
		if err != nil {
			return false
		}
		config, err := png.DecodeConfig(io.LimitReader(f, 4<<10))
		f.Close()
		return err == nil && config.Width == cifarSide && config.Height == cifarSide
	}
}
