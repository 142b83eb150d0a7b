// Package remedy lists the ways out of errors about datasets, in one table. A remedy can be typed where its reader stands: flags for the
// imgshard command that failed, or another command, such as the one that makes an index of images read in place.
package remedy

import (
	"cmp"
	"errors"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/imgfeed/imgfeed/internal/termsafe"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// A Remedy is one way out. Words in capitals stand for values that [Remedy.With] fills in, or that only the reader knows.
type Remedy struct {
	To     string // what it does: "take the images without labels"
	Flags  string // flags for the command that failed
	Shell  string // a command that makes Source
	Source string // the dataset to give instead
}

// Flags that say what the data cannot.
var (
	NoLabels     = Remedy{To: "take the images without labels", Flags: "--no-labels"}
	ForceClasses = Remedy{To: "take it as it is", Flags: "--force-classes"}
	ClassesFrom  = Remedy{To: "take the deeper folders for the classes", Flags: "--classes-from LEVEL"}
	StringOrder  = Remedy{To: "take the order of ImageFolder", Flags: "--class-order string"}
	NameClasses  = Remedy{To: "name the classes by a file, one a line", Flags: "--classes FILE"}
	ILSVRC       = Remedy{To: "name them as those of ILSVRC2012", Flags: "--classes ilsvrc2012"}
	ClassesOf    = Remedy{To: "take the labels of another set, and leave out other classes", Flags: "--classes SET"}
	Label        = Remedy{To: "take another column for the labels", Flags: "--label COLUMN"}
	JSONLabel    = Remedy{To: "take the labels from a key of each sample's JSON", Flags: "--label json.KEY"}
	Path         = Remedy{To: "take another column for the paths of images", Flags: "--path COLUMN"}
	Images       = Remedy{To: "begin the paths in another folder", Flags: "--images DIR"}
	ImageKey     = Remedy{To: "say which files are the images", Flags: "--image-key EXTENSION"}
	Unlabelled   = Remedy{To: "take images without a label as -1", Flags: "--test"}
	Truncated    = Remedy{To: "take the part that is here", Flags: "--allow-truncated"}
	Exclude      = Remedy{To: "leave out the samples with the keys in a file", Flags: "--exclude FILE"}
	OneSplit     = Remedy{To: "take one split alone", Flags: "--split NAME"}
	FieldType    = Remedy{To: "say the type of the field", Flags: "--field NAME=SOURCE:TYPE"}
	ClipBoxes    = Remedy{To: "cut boxes off at the image's edges", Flags: "--clip-boxes"}
	DropEmpty    = Remedy{To: "leave out images without objects", Flags: "--drop-empty"}
	MapLabels    = Remedy{To: "map labels by lines FROM TO of a file (a colour is R + 256·G + 65536·B, * all others)",
		Flags: "--map-labels FILE"}
)

// Other datasets, and commands that make one.
var (
	Folder  = Remedy{To: "take the folder that is meant", Source: "DIR"}
	Archive = Remedy{To: "pack the archive itself", Shell: "imgshard build FILE"}
	Untar   = Remedy{To: "unpack it, and build the folder", Shell: "mkdir DIR-unpacked && tar xf FILE -C DIR-unpacked",
		Source: "DIR-unpacked"}
	UntarAll = Remedy{To: "unpack it whole, and build the folder",
		Shell: "mkdir DIR-unpacked && tar xf FILE --ignore-zeros -C DIR-unpacked", Source: "DIR-unpacked"}
	Unzip      = Remedy{To: "unpack it, and build its folder", Shell: "unzip -q FILE -d DIR-unpacked", Source: "DIR-unpacked"}
	Un7z       = Remedy{To: "unpack the 7z archive", Shell: "7z x FILE -oDIR-unpacked", Source: "DIR-unpacked"}
	Unrar      = Remedy{To: "unpack the RAR archive", Shell: "unrar x FILE DIR-unpacked/", Source: "DIR-unpacked"}
	JoinZip    = Remedy{To: "join its parts", Shell: "zip -q -s 0 DIR.zip --out DIR-whole.zip", Source: "DIR-whole.zip"}
	Zstd       = Remedy{To: "decompress it on the way", Shell: "zstd -dc FILE | imgshard build - -o DIR-shards"}
	Bzip2      = Remedy{To: "decompress bzip2 on the way", Shell: "bzip2 -dc FILE | imgshard build - -o DIR-shards"}
	XZ         = Remedy{To: "decompress xz on the way", Shell: "xz -dc FILE | imgshard build - -o DIR-shards"}
	FolderList = Remedy{To: "make a class of each folder that holds images, by a list", Flags: "--images DIR", Source: "OUT.tsv",
		Shell: `(cd DIR && printf 'path\tlabel\n' && find -L * -mindepth 1 -type f -not -path '*/.*' ` +
			`-iregex '.*\.\(jpe?g\|png\|gif\|webp\|bmp\)' | sed -E 's|(.*)/[^/]*|&\t\1|') > OUT.tsv`}
	MXNetList = Remedy{To: "make a list with a header of it", Shell: `(printf 'id\tlabel\tpath\n'; cat FILE) > DIR.tsv`,
		Source: "DIR.tsv"}
	CaffeList = Remedy{To: "make a list of lines such as a.jpg 3", Shell: "(echo path,label; tr ' ' , < FILE) > DIR.csv",
		Source: "DIR.csv"}
	Header      = Remedy{To: "put a header above it", Shell: "(echo path,label; cat FILE) > DIR-list.csv", Source: "DIR-list.csv"}
	JSONObjects = Remedy{To: "make a list of its objects", Shell: "jq -c '.[]' FILE > DIR.jsonl", Source: "DIR.jsonl"}
	JSONPairs   = Remedy{To: "make a list of its pairs", Shell: "jq -c '.[] | {path: .[0], label: .[1]}' FILE > DIR.jsonl",
		Source: "DIR.jsonl"}
	JSONPaths = Remedy{To: "make a list of its paths", Shell: "jq -c '.[] | {path: .}' FILE > DIR.jsonl", Source: "DIR.jsonl",
		Flags: "--no-labels"}
	JSONByPath = Remedy{To: "make a list of its paths and labels",
		Shell: "jq -c 'to_entries[] | {path: .key, label: .value}' FILE > DIR.jsonl", Source: "DIR.jsonl"}
	COCOLabels = Remedy{To: "make a list, if each image has one category", Source: "DIR.jsonl", Flags: "--images FOLDER",
		Shell: "jq -c '(.annotations | map({key: (.image_id | tostring), value: .category_id}) | from_entries) as $of | .images[] " +
			"| {path: .file_name, label: $of[.id | tostring]}' FILE > DIR.jsonl"}
	COCOImages = Remedy{To: "make a list of its images without labels", Source: "DIR.jsonl", Flags: "--no-labels --images FOLDER",
		Shell: "jq -c '.images[] | {path: .file_name}' FILE > DIR.jsonl"}
	COCOFile = Remedy{To: "take one of the files", Source: "FILE", Flags: "--images DIR"}
	Pack     = Remedy{To: "pack it instead", Shell: "imgshard build FILE"}
)

// All is every remedy, for a test that follows each.
func All() []Remedy {
	return []Remedy{NoLabels, ForceClasses, ClassesFrom, StringOrder, NameClasses, ILSVRC, ClassesOf, Label, JSONLabel, Path, Images,
		ImageKey, Unlabelled, Truncated, Exclude, OneSplit, FieldType, ClipBoxes, DropEmpty, MapLabels, Folder, Archive, Untar, UntarAll,
		Unzip, Un7z, Unrar, JoinZip, Zstd, Bzip2, XZ, FolderList, MXNetList,
		CaffeList, Header, JSONObjects, JSONPairs, JSONPaths, JSONByPath, COCOLabels, COCOImages, COCOFile, Pack}
}

// With fills in a value for a word in capitals.
func (r Remedy) With(word, value string) Remedy {
	value = termsafe.Shell(value)
	r.Flags, r.Shell, r.Source = strings.ReplaceAll(r.Flags, word, value), strings.ReplaceAll(r.Shell, word, value),
		strings.ReplaceAll(r.Source, word, value)
	return r
}

// Of fills in a file or folder for FILE, and for DIR its path without extensions, beside which a remedy writes. The paths in a list begin
// in its folder.
func (r Remedy) Of(file, stem string) Remedy {
	out := Beside(stem)
	if out != stem && isList.MatchString(r.Source) && !strings.Contains(r.Flags, "--images") {
		r.Flags = strings.TrimSpace(r.Flags + " --images " + termsafe.Shell(filepath.Dir(file)))
	}
	return r.With("FILE", file).With("DIR", out)
}

var isList = regexp.MustCompile(`\.(csv|tsv|jsonl)$`)

// Beside is the path of something new beside a dataset: in the working folder if the dataset's cannot be written.
func Beside(path string) string {
	if path = strings.TrimSuffix(path, "/"); storage.IsRemote(path) || !writable(filepath.Dir(path)) {
		return filepath.Base(path)
	}
	return path
}

// writable is replaced in tests, which may run as root.
var writable = func(folder string) bool {
	err := syscall.Access(folder, 2) // W_OK
	return !errors.Is(err, syscall.EROFS) && !errors.Is(err, syscall.EACCES)
}

// String is for notes, and for errors of a command that has the flags.
func (r Remedy) String() string { return "to " + r.To + ", add " + r.Flags + " to imgshard's command" }

var ofCommand = regexp.MustCompile(`, add (.*?) to imgshard's command`)

// InPlace makes the remedies in a note commands, for a program that reads the dataset at path where it is.
func InPlace(note, path string) string {
	return ofCommand.ReplaceAllStringFunc(note, func(way string) string {
		return ", type " + Remedy{Flags: ofCommand.FindStringSubmatch(way)[1]}.command(path) + " and open the index"
	})
}

// Text is the end of an error with remedies. inPlace is the dataset that a program reads where it is, "" for imgshard.
func Text(remedies []Remedy, inPlace string) string {
	var flags, commands strings.Builder
	said := ""
	for _, r := range remedies {
		if c := r.command(inPlace); c != "" {
			if r.To != said {
				commands.WriteString("\n  to " + r.To + ":")
			}
			said = r.To
			commands.WriteString("\n    " + c)
		} else {
			flags.WriteString("; to " + r.To + ", add " + r.Flags)
		}
	}
	if inPlace != "" && strings.Contains(commands.String(), "imgshard index ") {
		commands.WriteString("\n  and then open the index")
	}
	return flags.String() + commands.String()
}

// command is the line to type; "" if flags are enough.
func (r Remedy) command(inPlace string) string {
	flags := strings.TrimSuffix(" "+r.Flags, " ")
	if inPlace != "" && !strings.Contains(flags, NoLabels.Flags) {
		flags += " " + StringOrder.Flags // Images in place have the labels of ImageFolder.
	}
	switch {
	case r.Shell != "" && r.Source == "":
		return r.Shell
	case r.Shell != "":
		return r.Shell + " && imgshard build " + r.Source + flags
	case inPlace != "":
		return "imgshard index " + cmp.Or(r.Source, termsafe.Shell(inPlace)) + " -o " + termsafe.Shell(Beside(inPlace)+"-index") + flags
	case r.Source != "" && Beside(strings.Trim(r.Source, "'")) != strings.Trim(r.Source, "'"):
		return "imgshard build " + r.Source + " -o " + termsafe.Shell(filepath.Base(strings.Trim(r.Source, "'"))+"-shards") + flags
	case r.Source != "":
		return "imgshard build " + r.Source + flags
	}
	return ""
}
