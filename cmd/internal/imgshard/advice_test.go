package imgshard

import (
	"cmp"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard/source/remedy"
)

// An advised is data whose command advises a remedy.
type advised struct {
	remedy  remedy.Remedy
	data    string // shell commands that make it; put FILE puts an image there
	command string // "": imgshard build d -o out
	follow  string // the command that flags are added to, if it is another
	fill    string // "WORD value", for a word in capitals that the reader fills in
	tool    string // a program that it takes
}

// advice has data for every remedy.
var advice = []advised{
	{remedy.NoLabels, "put d/cat/1.jpg", "", "", "", ""},
	{remedy.NoLabels, "put d/1.jpg", "", "", "", ""},
	{remedy.NoLabels, "put d/00000/1.jpg; echo {} > d/00000_stats.json", "", "", "", ""},
	{remedy.ForceClasses, "put d/cat/1.jpg", "", "", "", ""},
	{remedy.ForceClasses, "put d/cat/1.jpg d/dog/2.jpg d/logs/1; echo log > d/logs/1", "", "", "", ""},
	{remedy.ForceClasses, "put d/images/train/1.jpg d/images/val/2.jpg d/masks/train/1.jpg d/masks/val/2.jpg", "imgshard build d -o out --no-labels", "", "", ""},
	{remedy.NoLabels, "put d/ILSVRC2012_val_00000001.JPEG d/x.jpg", "", "", "", ""},
	{remedy.ForceClasses, `put d/1.jpg d/2.jpg; printf 'path,label\n1.jpg,3\n2.jpg,cat\n' > d/l.csv`, "imgshard build d/l.csv -o out", "", "", ""},
	{remedy.ForceClasses, "put d/train/a/1.jpg d/train/b/2.jpg d/val/a/3.jpg", "", "", "", ""},
	{remedy.ForceClasses, "for i in 0 1 2 3 4 5 6 7 8 9; do put d/n0000000$i/1.jpg; done; put d/others/1.jpg", "", "", "", ""},
	{remedy.ClassesFrom, "put d/a/cat/1.jpg d/a/dog/2.jpg d/b/cat/3.jpg d/b/owl/3.jpg", "", "", "", ""},
	{remedy.ClassesFrom, "put d/data/cat/images/1.jpg d/data/dog/images/2.jpg", "", "", "", ""},
	{remedy.StringOrder, "put d/2/1.jpg d/10/2.jpg", "imgshard build d -o out --force", "", "", ""},
	{remedy.NameClasses, `put d/cat/1.jpg d/dog/2.jpg d/logs/1; echo log > d/logs/1; printf 'cat\ndog\n' > names`, "", "", "FILE names", ""},
	{remedy.NameClasses, `put 1.jpg; echo '{"class_id": "cat"}' > 1.json; tar cf d.tar 1.jpg 1.json; printf 'dog\ncat\n' > names`, "imgshard build d.tar -o out --label json.class_id", "", "FILE names", ""},
	{remedy.NameClasses, `put d/train/1.jpg d/train/2.jpg d/val/3.jpg; printf 'file_name,label\n1.jpg,cat\n2.jpg,dog\n' > d/train/metadata.csv
		printf 'file_name,label\n3.jpg,1\n' > d/val/metadata.csv; printf 'cat\ndog\n' > names`, "", "", "FILE names", ""},
	{remedy.NameClasses, `put d/train/1.jpg d/val/3.jpg; printf 'file_name,label\n1.jpg,0\n' > d/train/metadata.csv
		printf 'file_name,label\n3.jpg,1\n' > d/val/metadata.csv; printf 'cat\ndog\n' > names`, "", "", "FILE names", ""},
	{remedy.NameClasses, `put d/1.jpg; printf 'path,label\n1.jpg,1\n' > d/l.csv; printf 'cat\ndog\n' > names`, "imgshard build d/l.csv -o out --force", "", "FILE names", ""},
	{remedy.ILSVRC, `put d/1.jpg; printf 'path,label\n1.jpg,999\n' > d/l.csv`, "imgshard build d/l.csv -o out --force", "", "", ""},
	{remedy.ILSVRC, `put 1.jpg; echo '{"class_id": "n01440764"}' > 1.json; tar cf d.tar 1.jpg 1.json`, "imgshard build d.tar -o out --label json.class_id", "", "", ""},
	{remedy.ClassesOf, "put d/train/a/1.jpg d/train/b/2.jpg d/val/a/3.jpg d/val/c/4.jpg; imgshard build d/train -o set", "", "", "SET set", ""},
	{remedy.ClassesOf, "put d/train/a/1.jpg d/train/b/2.jpg d/val/a/3.jpg d/val/c/4.jpg; imgshard build d/train", "imgshard build d/val -o out --force", "", "", ""},
	{remedy.Label, `put d/1.jpg d/2.jpg; printf 'path,label,kind\n1.jpg,3,a\n2.jpg,cat,b\n' > d/l.csv`, "imgshard build d/l.csv -o out", "", "COLUMN kind", ""},
	{remedy.Label, `put d/1.jpg; printf 'path,kind\n1.jpg,3\n' > d/l.csv`, "imgshard build d/l.csv -o out", "", "COLUMN kind", ""},
	{remedy.JSONLabel, `put 1.jpg; echo 1.5 > 1.cls; echo '{"y": 1}' > 1.json; tar cf d.tar 1.jpg 1.cls 1.json`, "imgshard build d.tar -o out", "", "KEY y", ""},
	{remedy.JSONLabel, `put 1.jpg; echo '{"y": 1}' > 1.json; tar cf d.tar 1.jpg 1.json`, "imgshard build d.tar -o out", "", "KEY y", ""},
	{remedy.Path, `put d/1.jpg; printf 'image_id,label\n1,3\n' > d/l.csv`, "imgshard build d/l.csv -o out", "", "COLUMN image_id", ""},
	{remedy.Path, `put d/1.jpg; echo '{"id": "1", "label": 3}' > d/l.jsonl`, "imgshard build d/l.jsonl -o out", "", "COLUMN id", ""},
	{remedy.Images, `put d/1.jpg; printf 'path,label\n1.jpg,3\n' > l.csv`, "imgshard build l.csv -o out", "", "DIR d", ""},
	{remedy.Images, `put d/i/1.jpg; printf 'path,label\n/i/1.jpg,3\n' > d/l.csv`, "imgshard build d/l.csv -o out", "", "", ""},
	{remedy.Images, `put d/i/1.jpg d/j/2.jpg; printf "path,label\n$PWD/d/i/1.jpg,3\n$PWD/d/j/2.jpg,3\n" > l.csv; mkdir e; mv l.csv e`, "imgshard build e/l.csv -o out", "", "", ""},
	{remedy.ImageKey, "put 1.image.jpg; echo 3 > 1.cls; tar cf d.tar 1.image.jpg 1.cls", "imgshard build d.tar -o out", "", "EXTENSION image.jpg", ""},
	{remedy.ImageKey, "put 1.jpg 1.png; echo 3 > 1.cls; tar cf d.tar 1.jpg 1.png 1.cls", "imgshard build d.tar -o out", "", "EXTENSION png", ""},
	{remedy.Unlabelled, "put d/train/a/1.jpg d/train/b/2.jpg d/test/3.jpg", "imgshard build d -o out --force", "", "", ""},
	{remedy.Unlabelled, `put d/1.jpg; printf 'path,label\n1.jpg,\n' > d/l.csv`, "imgshard build d/l.csv -o out", "", "", ""},
	{remedy.Truncated, "put cat/1.jpg dog/2.jpg; tar cf d.tar -b 1 cat dog; truncate -s -1024 d.tar", "imgshard build d.tar -o out", "", "", ""},
	{remedy.Exclude, `put 1.jpg 2.jpg; echo '{"y": 1}' > 1.json; echo {} > 2.json; tar cf d.tar 1.jpg 1.json 2.jpg 2.json; echo 2 > bad`, "imgshard build d.tar -o out --label json.y", "", "FILE bad", ""},
	{remedy.Exclude, "put d/a/1.jpg d/a/1.jpg~ d/b/2.jpg; echo a/1.jpg~ > bad", "imgshard build d -o out --force", "", "FILE bad", ""},
	{remedy.OneSplit, `put d/1.jpg d/2.jpg; printf 'path,label,split\n1.jpg,3,train\n2.jpg,3,\n' > d/l.csv`, "imgshard build d/l.csv -o out", "", "", ""},
	{remedy.FieldType, "put 1.jpg; echo 3 > 1.cls; echo mask > 1.bin; tar cf d.tar 1.jpg 1.cls 1.bin", "imgshard build d.tar -o out --field x=bin", "imgshard build d.tar -o out", "TYPE bytes", ""},
	{remedy.Folder, "put d/images/cat/1.jpg d/images/dog/2.jpg d/parts/1; echo x > d/parts/1", "", "", "", ""},
	{remedy.Folder, "put d/images/train/1.jpg d/images/val/2.jpg d/masks/train/1.jpg d/masks/val/2.jpg", "imgshard build d -o out --no-labels", "", "", ""},
	{remedy.Folder, "put d/images/train/1.jpg d/masks/train/1_mask.jpg", "", "", "", ""},
	{remedy.Folder, "put d/images/cat/1.jpg d/images/dog/1.jpg d/Annotation/cat/1", "", "", "", ""},
	{remedy.OneSplit, `put d/images/train/1.jpg d/images/val/2.jpg; mkdir -p d/labels/train; echo 0 .5 .5 .2 .2 > d/labels/train/1.txt`, "", "", "NAME train", ""},
	{remedy.Folder, `put d/images/t/1.jpg; mkdir -p d/labels/t; echo 0 .5 .5 .2 .2 > d/labels/t/1.txt; printf 'train: images/t\nnames: [a]\n' > d/data.yaml`, "imgshard build d/data.yaml -o out", "", "", ""},
	{remedy.Folder, "put d/train2014/cat/1.jpg d/train2014/dog/2.jpg d/train2017/cat/2.jpg d/train2017/dog/1.jpg d/val2014/cat/1.jpg", "", "", "", ""},
	{remedy.Folder, "put d/train/a/1.jpg d/train/b/2.jpg d/val/a/3.jpg d/val/b/3.jpg", "imgshard build d -o out --split x", "", "", ""},
	{remedy.Folder, `put d/1.jpg; printf 'path,label\n1.jpg,3\n' > d/a.csv; cp d/a.csv d/b.csv`, "imgshard build d/a.csv d/b.csv -o out", "", "", ""},
	{remedy.Archive, "put cat/1.jpg dog/2.jpg; mkdir d; zip -q d/x.zip cat/1.jpg dog/2.jpg", "", "", "", "zip"},
	{remedy.Archive, "put a/1.jpg b/2.jpg; mkdir d; tar cf d/train.tar a b; tar cf d/val.tar a b", "", "", "", ""},
	{remedy.Untar, `put cat/1.jpg dog/2.jpg; tar cPf x.tar --transform "s|^$PWD||" $PWD/cat $PWD/dog`, "imgshard build x.tar -o out", "", "", ""},
	{remedy.Untar, "put x/train/cat/1.jpg x/train/dog/2.jpg x/val/cat/1.jpg x/val/dog/1.jpg; tar cf x.tar x", "imgshard build x.tar -o out", "", "", ""},
	{remedy.Untar, "put x/cat/1.jpg x/dog/2.jpg; echo hello > README; tar cf x.tar README x", "imgshard build x.tar -o out", "", "", ""},
	{remedy.Untar, "put train/cat/1.jpg train/dog/2.jpg val/cat/1.jpg val/dog/2.jpg; tar cf x.tar train val", "imgshard build x.tar -o out", "", "", ""},
	{remedy.Untar, "put train2017/1.jpg val2017/2.jpg; tar cf x.tar train2017 val2017", "imgshard build x.tar -o out", "", "", ""},
	{remedy.Untar, "put training_set/cat/1.jpg training_set/dog/2.jpg test_set/cat/1.jpg test_set/dog/2.jpg; tar cf x.tar training_set test_set", "imgshard build x.tar -o out", "", "", ""},
	{remedy.Untar, `put 0/1.jpg 1/2.jpg; printf 'file_name,label\n0/1.jpg,x\n1/2.jpg,y\n' > metadata.csv; tar cf x.tar 0 1 metadata.csv`, "imgshard build x.tar -o out", "", "", ""},
	{remedy.ForceClasses, `put d/1.jpg d/2.jpg; printf 'path,label,set\n1.jpg,x,train\n2.jpg,y,val\n' > d/l.csv`, "imgshard build d/l.csv -o out", "", "", ""},
	{remedy.UntarAll, "put cat/1.jpg dog/2.jpg; tar cf a.tar cat; tar cf b.tar dog; cat a.tar b.tar > x.tar", "imgshard build x.tar -o out", "", "", ""},
	{remedy.Unzip, "put 1.jpg; tar cf cat.tar 1.jpg; cp cat.tar dog.tar; zip -q x.zip cat.tar dog.tar", "imgshard build x.zip -o out", "", "", "zip"},
	{remedy.Unzip, "put cat/1.jpg dog/2.jpg; head -c 99999 /dev/zero | tee -a cat/1.jpg >> dog/2.jpg; zip -q -Z bzip2 x.zip cat/1.jpg dog/2.jpg", "imgshard build x.zip -o out", "", "", "zip"},
	{remedy.Un7z, "put cat/1.jpg dog/2.jpg; 7z a x.7z cat dog > log", "imgshard build x.7z -o out", "", "", "7z"},
	{remedy.Unrar, "put cat/1.jpg dog/2.jpg; rar a x.rar cat dog > log", "imgshard build x.rar -o out", "", "", "rar"},
	{remedy.JoinZip, "put cat/1.jpg dog/2.jpg; head -c 100000 /dev/urandom > notes; zip -q -s 64k -r x.zip cat dog notes", "imgshard build x.z01 -o out", "", "", "zip"},
	{remedy.Zstd, "put cat/1.jpg dog/2.jpg; tar c cat dog | zstd -q > x.tar.zst", "imgshard build x.tar.zst -o out", "", "", "zstd"},
	{remedy.Bzip2, "put cat/1.jpg dog/2.jpg; tar c cat dog | bzip2 > x.tar.bz2", "imgshard build x.tar.bz2 -o out", "", "", "bzip2"},
	{remedy.XZ, "put cat/1.jpg dog/2.jpg; tar c cat dog | xz > x.tar.xz", "imgshard build x.tar.xz -o out", "", "", "xz"},
	{remedy.FolderList, "put d/a/airfield/1.jpg 'd/a/apt, old/in/2.jpg' d/a/apt/out/3.jpg d/b/bar/4.jpg d/b/bar/.ipynb_checkpoints/5.jpg", "", "", "", ""},
	{remedy.FolderList, "put d/a/airfield/1.jpg d/a/apt/in/2.jpg", "imgshard build d -o out --classes-from 3", "", "", ""},
	{remedy.FolderList, "put x/airfield/1.jpg x/apt/in/2.jpg x/apt/out/3.jpg; tar cf x.tar x", "imgshard build x.tar -o out", "", "", ""},
	{remedy.MXNetList, `put 1.jpg; printf '0\t3.0\t1.jpg\n' > x.lst`, "imgshard build x.lst -o out", "", "", ""},
	{remedy.CaffeList, "put 1.jpg; echo 1.jpg 3 > x.txt", "imgshard build x.txt -o out", "", "", ""},
	{remedy.Header, "put 1.jpg; echo 1.jpg,3 > x.csv", "imgshard build x.csv -o out", "", "", ""},
	{remedy.JSONObjects, `put 1.jpg; echo '[{"path": "1.jpg", "label": 3}]' > x.json`, "imgshard build x.json -o out", "", "", "jq"},
	{remedy.JSONObjects, `put 1.jpg; echo '[{"path": "1.jpg", "label": 3}]' > x.jsonl`, "imgshard build x.jsonl -o out", "", "", "jq"},
	{remedy.JSONPairs, `put 1.jpg; echo '[["1.jpg", "cat"]]' > x.json`, "imgshard build x.json -o out", "", "", "jq"},
	{remedy.JSONPaths, `put 1.jpg; echo '["1.jpg"]' > x.json`, "imgshard build x.json -o out", "", "", "jq"},
	{remedy.JSONByPath, `put 'a 1.jpg'; echo '{"a 1.jpg": 3}' > 'x y.json'`, "imgshard build 'x y.json' -o out", "", "", "jq"},
	{remedy.COCOLabels, `put images/val/1.jpg; mkdir labels; echo '{"images": [{"id": 7, "file_name": "1.jpg"}], "annotations": [{"image_id": 7, "category_id": 3}]}' > labels/x.json`,
		"imgshard build labels/x.json -o out", "", "FOLDER images/val", "jq"},
	{remedy.COCOImages, `put val2017/1.jpg; mkdir annotations; echo '{"info": {}, "images": [{"id": 7, "file_name": "1.jpg"}], "annotations": []}' > annotations/x.json`,
		"imgshard build annotations/x.json -o out", "", "FOLDER val2017", "jq"},
	{remedy.COCOFile, `put d/train/1.jpg; mkdir d/annotations; echo '{"images": [{"id": 7, "file_name": "1.jpg"}], "annotations": [], "categories": []}' |
		tee d/annotations/instances_train2014.json > d/annotations/instances_train2017.json`, "", "", "DIR d/train", ""},
	{remedy.ClipBoxes, "put d/images/1.jpg; mkdir d/labels; echo 0 .5 .5 2 2 > d/labels/1.txt", "imgshard build d -o out --force", "", "", ""},
	{remedy.DropEmpty, "put d/images/1.jpg d/images/2.jpg; mkdir d/labels; echo 0 .5 .5 .2 .2 > d/labels/1.txt", "imgshard build d -o out --force", "", "", ""},
	{remedy.MapLabels, `mkdir -p d/images d/masks; echo iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAAAAABX3VL4AAAADklEQVR4nGNkZGBiYAAAABcABZMcQDEAAAAASUVORK5CYII= | base64 -d | tee d/images/1.png d/images/2.png > d/masks/1.png
		echo iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAFklEQVR4nGNkZ2RgYGBgYmBgYGBgAAAAkQAMbKXrpAAAAABJRU5ErkJggg== | base64 -d > d/masks/2.png; printf '263 0\n* 255\n' > map`, "imgshard build d -o out --force", "", "FILE map", ""},
	{remedy.Pack, "put cat/1.jpg dog/2.jpg; zip -q x.zip cat/1.jpg dog/2.jpg", "imgshard index x.zip -o out", "", "", "zip"},
}

// TestEveryRemedy follows each remedy that an error or a note can name, as it is printed. For a program that reads the same data in place,
// it follows the command that indexes them.
func TestEveryRemedy(t *testing.T) {
	bin := testenv.Must(filepath.Abs(os.Args[0]))(t)
	path := t.TempDir() // in which this test is imgshard
	testenv.OK(t, os.Symlink(bin, filepath.Join(path, "imgshard")))
	image := testenv.Must(filepath.Abs(images + "/n01440764/n01440764_10.JPEG"))(t)
	var indexing sync.Mutex
	followed := make(map[string]bool)
	for _, tc := range advice {
		followed[tc.remedy.To] = true
		t.Run(tc.remedy.To, func(t *testing.T) {
			t.Parallel()
			if tc.tool != "" {
				testenv.Command(tc.tool).Path(t)
			}
			dir := t.TempDir()
			sh := func(command string) (string, error) {
				cmd := exec.Command("bash", "-ec", command)
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "PATH="+path+":"+os.Getenv("PATH"), roleEnv+"=advised", "PHOTO="+image)
				out, err := cmd.CombinedOutput()
				return string(out), err
			}
			if out, err := sh(`put() { for f; do mkdir -p "$(dirname "$f")"; cp "$PHOTO" "$f"; done; }; ` + tc.data); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			tc.command = cmp.Or(tc.command, "imgshard build d -o out")
			tc.follow = cmp.Or(tc.follow, tc.command)
			word, value, _ := strings.Cut(tc.fill, " ")
			said, err := sh(tc.command)
			testenv.Require(t, (err == nil) == strings.HasSuffix(tc.command, "--force"), "%s: %v: %s", tc.command, err, said)
			lines := typed(t, tc.remedy, said, tc.follow)
			src, plain := strings.CutPrefix(tc.follow, "imgshard build ")
			src, named := strings.CutSuffix(src, " -o out")
			if plain && named && tc.follow == tc.command && tc.remedy.Shell == "" && !strings.Contains(src, " ") {
				indexing.Lock() // it sets the context of all storages
				_, err := Index(context.Background(), filepath.Join(dir, src), filepath.Join(dir, "index"), io.Discard)
				indexing.Unlock()
				testenv.Require(t, err != nil, "it is indexed")
				lines = append(lines, inPlace(t, tc.remedy, err.Error())...)
			}
			for _, line := range lines {
				if word != "" {
					line = strings.ReplaceAll(line, word, value)
				}
				out, err := sh(line)
				testenv.Check(t, err == nil, "%s\nadvises %s\n%v: %s", said, line, err, out)
			}
		})
	}
	for _, r := range remedy.All() {
		testenv.Check(t, followed[r.To], "nothing follows the remedy %q", r.To)
	}
}

// typed finds a remedy in a message of command, and returns the lines that it says to type.
func typed(t *testing.T, r remedy.Remedy, said, command string) (lines []string) {
	t.Helper()
	to := "to " + regexp.QuoteMeta(r.To)
	if flags := regexp.MustCompile(to + `, add (.*?)(?: to imgshard's command|;|\n|$)`).FindStringSubmatch(said); flags != nil {
		return []string{command + " " + flags[1]}
	}
	for line := range strings.SplitSeq(strings.TrimPrefix(regexp.MustCompile(to+`:(?:\n    .*)+`).FindString(said), "to "+r.To+":\n"), "\n") {
		if line != "" {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	testenv.Check(t, len(lines) > 0, "%s\ndoes not say how to %s", said, r.To)
	return lines
}

// inPlace finds a remedy in a message for a program that has no flags.
func inPlace(t *testing.T, r remedy.Remedy, said string) []string {
	t.Helper()
	testenv.Check(t, !regexp.MustCompile(`add --`).MatchString(said), "it advises flags that it lacks: %s", said)
	lines := typed(t, r, said, "")
	for _, line := range lines {
		testenv.Check(t, strings.HasPrefix(line, "imgshard index "), "it advises %s", line)
	}
	return lines
}
