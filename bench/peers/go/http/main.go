// Command http answers every request with "Pong!", or serves the files of a directory, with package net/http.
// Usage: http PORT [DIRECTORY], or http PORT DIRECTORY CERTIFICATE KEY for TLS, where "-" is no directory.
// GOMAXPROCS gives the number of cores.
package main

import (
	"crypto/tls"
	"log"
	"net/http"
	"os"
)

func pong(body []byte) http.Handler {
	return http.HandlerFunc(func(response http.ResponseWriter, _ *http.Request) {
		response.Header().Set("Content-Type", "text/plain")
		response.Write(body)
	})
}

func main() {
	handler := pong([]byte("Pong!"))
	if len(os.Args) > 2 && os.Args[2] != "-" {
		handler = http.FileServer(http.Dir(os.Args[2]))
	}
	if len(os.Args) < 5 {
		log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], handler))
	}
	server := &http.Server{
		Addr:    "127.0.0.1:" + os.Args[1],
		Handler: handler,
		// The clients here speak HTTP/1.1.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
	}
	log.Fatal(server.ListenAndServeTLS(os.Args[3], os.Args[4]))
}
