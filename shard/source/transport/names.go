package transport

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
)

const (
	ParquetExtension = ".parquet"
	LabelExtension   = "cls" // the extension of a label beside an image, as WebDataset has it
)

const keyBytesMax = 4096 // bounds keys. Linux allows paths of this length.

// Junk says that a file or folder of this name is not part of any dataset: hidden, or left there by an operating system or a NAS.
func Junk(name string) bool {
	if strings.HasPrefix(name, ".") {
		return true
	}
	switch strings.ToLower(name) {
	case "thumbs.db", "ehthumbs.db", "desktop.ini", "__macosx", "@eadir", "lost+found":
		return true
	}
	return false
}

// EntryPath cleans the name of a tar's entry: "./a//b" becomes "a/b"; "" is the archive's root. Absolute names and names that climb out
// with ".." are refused: no honest dataset has them, and taking them as something else would give two files one key.
func EntryPath(name string) (string, error) {
	switch {
	case strings.Trim(name, "/") == "": // Python's tarfile writes the folder "/" so
		return "", nil
	case strings.HasPrefix(name, "/"):
		return "", errors.New("absolute name")
	case slices.Contains(strings.Split(name, "/"), ".."):
		return "", errors.New("name that climbs out of its root with \"..\"")
	case strings.ContainsRune(name, 0):
		return "", errors.New("name with a zero byte")
	case len(name) > keyBytesMax:
		return "", fmt.Errorf("name of %d bytes, more than %d", len(name), keyBytesMax)
	}
	if name = path.Clean(name); name == "." {
		return "", nil
	}
	return name, nil
}

// NameReason says why no sample can have this key; empty when one can. Keys stand in JSON, which can hold only UTF-8.
func NameReason(key string) string {
	if len(key) > keyBytesMax { // a class tar's name and a path in it
		return fmt.Sprintf("its name has more than %d bytes", keyBytesMax)
	}
	if !utf8.ValidString(key) {
		return "its name is not UTF-8"
	}
	return ""
}

// Stem strips the suffixes of archives from a path: "/data/n01440764.tar.gz" becomes "/data/n01440764".
func Stem(p string) string {
	for _, suffix := range []string{".tar", ".tar.gz", ".tgz", ".zip"} {
		if s, ok := cutSuffixFold(p, suffix); ok && filepath.Base(s) != "" {
			return s
		}
	}
	return p
}

func cutSuffixFold(s, suffix string) (string, bool) {
	if len(s) > len(suffix) && strings.EqualFold(s[len(s)-len(suffix):], suffix) {
		return s[:len(s)-len(suffix)], true
	}
	return s, false
}

// NamedTar says that a file has the extension of a tar. Its content decides what it is; the extension tells what a folder is meant to hold.
func NamedTar(name string) bool {
	_, zip := cutSuffixFold(name, ".zip")
	return !zip && Stem(name) != name
}

// SplitName suggests a split's name from a path's last part.
func SplitName(p string) string {
	return cmp.Or(NamedSplit(p), "train")
}

// splitNames are the words that name splits, as in Hugging Face's package datasets, and the splits.
var splitNames = map[string]string{"train": "train", "training": "train", "trainval": "train", "val": "val", "valid": "val",
	"validation": "val", "dev": "val",
	"test": "test", "testing": "test", "eval": "test", "evaluation": "test"}

// FolderSplit is the split that a folder's whole name says, in any case of letters; "": none. ImageNet-21K-P has a prefix before it.
func FolderSplit(name string) string {
	return splitNames[strings.TrimPrefix(strings.ToLower(name), "imagenet21k_")]
}

var capitals = regexp.MustCompile(`([a-z])([A-Z])`) // the beginnings of words, as in TrainImages

// NamedSplit is the split that some word of a path's last name says, as train2017, cars_train, training_set or TestSet; "": none.
func NamedSplit(p string) string {
	name := strings.ToLower(capitals.ReplaceAllString(filepath.Base(Stem(p)), "$1 $2"))
	words := strings.FieldsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) })
	for _, split := range []string{"val", "test", "train"} {
		if slices.ContainsFunc(words, func(word string) bool { return splitNames[strings.TrimSuffix(word, "set")] == split }) {
			return split
		}
	}
	return ""
}

// AreSplits says that folders hold several splits, and not classes: half of them and more are named for splits, and not all for the same.
func AreSplits(folders []string) bool {
	named, splits := 0, make(map[string]bool)
	for _, name := range folders {
		if split := NamedSplit(name); split != "" {
			named++
			splits[split] = true
		}
	}
	return len(splits) > 1 && 2*named >= len(folders)
}

// NamedImage says that a file may be an image, by its name; one without an extension may.
func NamedImage(name string) bool {
	return path.Ext(name) == "" || ImageExtension(name)
}

// ImageExtension says that a file has the extension of an image.
func ImageExtension(name string) bool {
	return path.Ext(name) != "" && imagefile.HasExtension(strings.ToLower(path.Ext(name)[1:]))
}

// KeyClass returns the class of a key and the path in its folder; ok is false for a file that lies above all classes.
func KeyClass(key string, level int) (class, rest string, ok bool) {
	rest = key
	for range max(1, level) {
		if class, rest, ok = strings.Cut(rest, "/"); !ok {
			return "", "", false
		}
	}
	return class, rest, true
}

// FileKind tells tars, parquet files and others apart by their names.
func FileKind(file string) string {
	switch {
	case NamedTar(file):
		return ".tar"
	case strings.EqualFold(filepath.Ext(file), ParquetExtension):
		return ParquetExtension
	}
	return ""
}

// CommonPrefix is the longest text with which the paths of all files begin. Its filepath.Dir is the innermost folder that holds all.
func CommonPrefix(files []string) string {
	prefix := files[0]
	for _, file := range files {
		for !strings.HasPrefix(file, prefix) {
			prefix = prefix[:len(prefix)-1]
		}
	}
	return prefix
}
