// Looks every two seconds whether something is new, and loads the page again then; once, since that can take seconds.
(function () {
  "use strict";
  var loading = false;
  var look = function () {
    if (loading) return;
    fetch("progress.json", { cache: "no-store" })
      .then(function (answer) { return answer.text(); })
      .then(function (state) {
        document.title = document.title.replace(/^\(stopped\) /, "");
        if (loading || state === document.body.dataset.state) return;
        loading = true;
        location.reload();
      })
      .catch(function () { document.title = "(stopped) " + document.title.replace(/^\(stopped\) /, ""); });
  };
  look();
  setInterval(look, 2000);
})();
