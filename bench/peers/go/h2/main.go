// Command h2 answers every request with "Pong!" after it has read the request's body, or serves the files of a
// directory, by HTTP/2 in clear text with package net/http. Usage: h2 PORT [DIRECTORY], or h2 PORT DIRECTORY
// CERTIFICATE KEY for TLS, where "-" is no directory. GOMAXPROCS gives the number of cores.
package main

import (
	"io"
	"log"
	"net/http"
	"os"
)

func pong(body []byte) http.Handler {
	return http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		io.Copy(io.Discard, request.Body)
		response.Header().Set("Content-Type", "text/plain")
		response.Write(body)
	})
}

func main() {
	handler := pong([]byte("Pong!"))
	if len(os.Args) > 2 && os.Args[2] != "-" {
		handler = http.FileServer(http.Dir(os.Args[2]))
	}
	if len(os.Args) == 5 {
		server := http.Server{Addr: "127.0.0.1:" + os.Args[1], Handler: handler}
		log.Fatal(server.ListenAndServeTLS(os.Args[3], os.Args[4]))
	}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	server := http.Server{Addr: "127.0.0.1:" + os.Args[1], Handler: handler, Protocols: protocols}
	log.Fatal(server.ListenAndServe())
}
