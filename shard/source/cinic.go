package source

import (
	"image/png"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// cinic10 is CINIC-10 (Darlow et al., "CINIC-10 is not ImageNet or CIFAR-10", 2018; https://github.com/BayesWatch/cinic-10): 270,000 images of
// 32×32 in three splits of the same size, train, valid and test, each a folder of class folders with PNGs:
//
//	CINIC-10/train/airplane/cifar10-train-29.png
//	CINIC-10/valid/airplane/n02690373_10065.png
//
// It is read as any class folders are. What is known of it is that its images are small, so that there is nothing to resize, and that its test
// images are sorted into class folders too, so that they are a split as well.
var cinic10 = Kind{
	Name:         "CINIC-10",
	Forms:        []string{"its folder with train/, valid/ and test/", "one of these"},
	Labels:       "the place of the class in sorted order",
	open:         openCINIC,
	testLabelled: true,
}

var cifarClassNames = []string{"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"}

// openCINIC takes class folders that are those of CINIC-10, or CIFAR-10 as PNGs: the ten classes, and the first image of each is a PNG of 32×32.
func openCINIC(c *candidate) ([]*Split, error) {
	if c.folder == nil || c.tree != fileTree(fileSystem{}) {
		return nil, nil
	}
	large := func(class string) bool { return !firstIsSmallPNG(filepath.Join(c.path, class)) }
	if !slices.Equal(c.folders, cifarClassNames) || slices.ContainsFunc(c.folders, large) {
		return nil, nil
	}
	splits, err := openClassFolders(c)
	for _, s := range splits {
		s.decoded = true
	}
	return splits, err
}

// firstIsSmallPNG says that the first file that a folder lists, in no promised order, is a PNG of 32×32: enough for 9,000 of them.
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
