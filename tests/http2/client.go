// A client of HTTP/2 in clear text with Go's net/http: a request, an upload, and a hundred requests at once. Usage: go run
// client.go URL. It fails unless every answer is "Pong!" by HTTP/2.
package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
)

func main() {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: protocols}}
	ask := func(body io.Reader) {
		method := "GET"
		if body != nil {
			method = "POST"
		}
		request, err := http.NewRequest(method, os.Args[1], body)
		check(err)
		answer, err := client.Do(request)
		check(err)
		text, err := io.ReadAll(answer.Body)
		check(err)
		if answer.StatusCode != 200 || string(text) != "Pong!" || answer.ProtoMajor != 2 {
			check(fmt.Errorf("%s %s %q", answer.Status, answer.Proto, text))
		}
	}
	ask(nil)
	ask(bytes.NewReader(make([]byte, 200_000)))
	var all sync.WaitGroup
	for i := 0; i < 100; i++ {
		all.Add(1)
		go func() { defer all.Done(); ask(nil) }()
	}
	all.Wait()
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
