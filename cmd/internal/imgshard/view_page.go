package imgshard

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/image/thumbnail"
	"github.com/imgfeed/imgfeed/internal/page"
	"github.com/imgfeed/imgfeed/internal/wordnet"
)

//go:embed view.js
var viewScript string

// writePage writes the sheet as a page.
func (s *viewSheet) writePage(out io.Writer) error {
	p := page.Begin(out, s.Title, "view", viewScript)
	p.Add("<header>\n<h1>%s</h1>\n"+`<label>Class, key or index: <input id="search" type="search" autofocus></label> `+
		`<span id="shown" class="faint" role="status">%d samples of %d</span>`+"\n</header>\n", s.Title, len(s.Samples), s.All)
	if s.Transform != "" {
		addTransform(p, s.Transform)
	}
	words := ""
	for i, sample := range s.Samples {
		if i == 0 || sample.Label != s.Samples[i-1].Label {
			if i > 0 {
				p.Add("</div>\n</section>\n")
			}
			words = wordnet.Words(sample.Class)
			addClass(p, sample.Label, sample.Class, words)
		}
		addSample(p, sample, words)
	}
	p.Add("</div>\n</section>\n")
	return p.End()
}

// addClass begins the section of a class. words are WordNet's words for it.
func addClass(p page.Page, label int32, class, words string) {
	p.Add("<section>\n<h2>")
	if label >= 0 {
		p.Add("%d: ", label)
	}
	p.Add("%s", class)
	if words != "" {
		p.Add(` <span class="faint">%s</span>`, words)
	}
	p.Add("</h2>\n<div class=\"samples\">\n")
}

// addSample adds the pictures of a sample and their caption. words are WordNet's words for its class.
func addSample(p page.Page, s viewSample, words string) {
	p.Add(`<figure data-search="%s">`+"\n"+`<div class="pictures">`, fmt.Sprint(s.Class, " ", s.Key, " ", s.Index, " ", words))
	if s.Original != nil {
		addPicture(p, s.Original, "stored image", "stored image")
	}
	p.Add(`<div class="pictures">`)
	for i, draw := range s.Draws {
		name := "draw " + strconv.Itoa(i)
		addPicture(p, draw, name, name+": "+s.Done[i])
	}
	p.Add("</div></div>\n"+`<figcaption>%d · %s<br><span class="faint">%d × %d, %s, %s<br>%s</span>`, s.Index, s.Key, s.Width,
		s.Height, s.Format,
		bytesize.Format(int64(s.Bytes)), s.Shard)
	if s.Error != "" {
		p.Add(`<br><span class="warn">%s</span>`, s.Error)
	}
	p.Add("</figcaption>\n</figure>\n")
}

// addTransform adds a table of the operations, which text lists in JSON, and of their parameters.
func addTransform(p page.Page, text string) {
	var ops []map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &ops); err != nil {
		p.Add("<p><code>%s</code></p>\n", text)
		return
	}
	var rows [][]any
	for _, op := range ops {
		var parameters []string
		for _, name := range slices.Sorted(maps.Keys(op)) {
			if name != "op" {
				parameters = append(parameters, name+" "+string(op[name]))
			}
		}
		rows = append(rows, []any{strings.Trim(string(op["op"]), `"`), page.Markup("<code>%s</code>", strings.Join(parameters, ", "))})
	}
	p.Table([]string{"operation", "parameters"}, rows)
}

func addPicture(p page.Page, picture *thumbnail.Picture, name, title string) {
	p.Add(`<img src="%s" width="%d" height="%d" alt="%s" title="%s" loading="lazy" decoding="async">`,
		picture.URL, picture.Width, picture.Height, name, title)
}

// checkPage refuses to overwrite a file that this command did not write.
func checkPage(cmd *cobra.Command, path string) error {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	head := make([]byte, 256)
	n, err := io.ReadFull(f, head)
	if mark := string(page.Mark(cmd.Name())); !strings.Contains(string(head[:n]), mark) {
		err = fmt.Errorf("imgshard %s did not write %s, and leaves it: choose another file with -o", cmd.Name(), path)
	} else if errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return err
}

// writeFile writes a file, and prints what it holds then; "-" is standard output.
func writeFile(cmd *cobra.Command, path string, write func(io.Writer) error, content string) error {
	if path == "-" {
		return write(cmd.OutOrStdout())
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		return err
	}
	fmt.Fprintln(outcome(cmd), content)
	return nil
}
