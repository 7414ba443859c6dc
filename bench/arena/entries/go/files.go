// Files of a folder, and their compressed variants NAME.br and NAME.gz for clients that accept these.
package main

import (
	"mime"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
)

type compressedFiles struct{ directory string }

var codings = []struct{ name, suffix string }{{"br", ".br"}, {"gzip", ".gz"}}

func (files compressedFiles) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	name := filepath.Join(files.directory, filepath.FromSlash(path.Clean("/"+request.URL.Path)))
	if kind := mime.TypeByExtension(filepath.Ext(name)); kind != "" {
		response.Header().Set("Content-Type", kind)
	}
	accepted := request.Header.Get("Accept-Encoding")
	for _, coding := range codings {
		if strings.Contains(accepted, coding.name) && files.serve(response, request, name+coding.suffix, coding.name) {
			return
		}
	}
	if !files.serve(response, request, name, "") {
		http.NotFound(response, request)
	}
}

// serve answers with a file if it exists.
func (compressedFiles) serve(response http.ResponseWriter, request *http.Request, name, coding string) bool {
	file, err := os.Open(name)
	if err != nil {
		return false
	}
	defer file.Close()
	about, err := file.Stat()
	if err != nil || !about.Mode().IsRegular() {
		return false
	}
	if coding != "" {
		response.Header().Set("Content-Encoding", coding)
	}
	response.Header().Set("Vary", "Accept-Encoding")
	http.ServeContent(response, request, "", about.ModTime(), file)
	return true
}
