// A client of HTTP/2 with Go's net/http: a request, an upload, and a hundred requests at once. Usage: go run client.go
// URL [AUTHORITY], the second for TLS. It fails unless every answer is "Pong!" by HTTP/2.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
)

func main() {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	protocols.SetHTTP2(true)
	roots := x509.NewCertPool()
	if len(os.Args) > 2 {
		authority, err := os.ReadFile(os.Args[2])
		check(err)
		roots.AppendCertsFromPEM(authority)
	}
	client := &http.Client{Transport: &http.Transport{Protocols: protocols, TLSClientConfig: &tls.Config{RootCAs: roots}}}
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
