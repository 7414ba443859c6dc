// A client of HTTP/2 with Java's HttpClient: a request, an upload, and a hundred requests at once. Usage: java
// Client.java URL VERSION. It fails unless every answer is "Pong!" by this version of HTTP: in clear text the client
// begins with HTTP/1.1 and Upgrade, which RFC 9113 no longer has; over TLS they agree on HTTP/2.
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;

public class Client {
    static HttpClient.Version wanted;

    static void check(HttpResponse<String> answer) {
        if (answer.statusCode() != 200 || !answer.body().equals("Pong!") || answer.version() != wanted)
            throw new IllegalStateException(answer + " " + answer.body());
    }

    public static void main(String[] arguments) throws Exception {
        wanted = HttpClient.Version.valueOf(arguments[1]);
        var client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_2).build();
        var get = HttpRequest.newBuilder(URI.create(arguments[0])).build();
        var post = HttpRequest.newBuilder(URI.create(arguments[0])).POST(BodyPublishers.ofByteArray(new byte[200_000])).build();
        check(client.send(get, BodyHandlers.ofString()));
        check(client.send(post, BodyHandlers.ofString()));
        var all = Stream.generate(() -> client.sendAsync(get, BodyHandlers.ofString()).thenAccept(Client::check)).limit(100);
        CompletableFuture.allOf(all.toArray(CompletableFuture[]::new)).join();
    }
}
