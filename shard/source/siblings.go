package source

import (
	"fmt"
	"path/filepath"

	"github.com/imgfeed/imgfeed/shard"
)

// SiblingClasses says that the training split beside this one, a set or a folder of class folders, has other classes, so that its labels mean something
// else; "" if there is none, or it has the same ones. classes are those of this split.
func SiblingClasses(s *Split, classes []string) string {
	if s.Name == "train" || len(classes) == 0 {
		return ""
	}
	path, train := sibling(s)
	label, differ := shard.LabelsDiffer(classes, train)
	if len(train) == 0 || !differ {
		return ""
	}
	other := "none"
	if label < len(train) {
		other = train[label]
	}
	return fmt.Sprintf("%s has other classes than %s beside it: label %d is %s here and %s there. Build both together, or this one with --classes SET, the set of train",
		s.Path, path, label, classes[label], other)
}

// sibling finds the training split beside this one, and its classes.
func sibling(s *Split) (path string, classes []string) {
	for _, beside := range []string{filepath.Dir(s.Path), filepath.Dir(s.Output)} {
		found, err := shard.FindAll(beside)
		if err != nil {
			continue
		}
		if set := found.Sets["train"]; set != "" {
			if m, err := shard.ReadManifest(set); err == nil {
				return set, m.Classes
			}
		}
	}
	f, err := listFolder(fileSystem{}, filepath.Dir(s.Path))
	if err != nil {
		return "", nil
	}
	name := splitFolder(f.folders, "train")
	path = filepath.Join(filepath.Dir(s.Path), name)
	if name == "" || path == s.Path {
		return "", nil
	}
	train, err := listFolder(fileSystem{}, path)
	if err != nil {
		return "", nil
	}
	return path, orderClasses(s.Again(), train.folders)
}
